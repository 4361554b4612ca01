// The dialect's text.
#pragma once

#include "ir/import/Model.h"

#include "llvm/ADT/StringRef.h"

namespace kfuse::ir {

/// Parses and verifies a module. `path` is named in errors.
Result<Model> importText(llvm::StringRef text, const std::string &path, mlir::MLIRContext &context);

} // namespace kfuse::ir
