// ONNX files.
#pragma once

#include "ir/import/Model.h"
#include "ir/import/onnx/file/DataFolders.h"

namespace kfuse::ir {

/// Reads a serialised ONNX model, opset 13 to 24.
Result<Model> importOnnx(std::span<const std::byte> file, const onnx::DataFolders &folders,
                         const ImportOptions &options, mlir::MLIRContext &context);

} // namespace kfuse::ir
