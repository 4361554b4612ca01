// ONNX files.
#pragma once

#include "ir/import/Model.h"

namespace kfuse::ir {

/// Reads a serialised ONNX model, opset 13 to 23. External data lies in `folder`; empty: there is none.
Result<Model> importOnnx(std::span<const std::byte> file, const std::string &folder, const ImportOptions &options,
                         mlir::MLIRContext &context);

} // namespace kfuse::ir
