// What depends on parameters alone, apart from what runs each time.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kfuse::passes {

/// Moves what depends on parameters alone from `main`, a function of one block, into @prepare beside it.
void splitPrepare(mlir::func::FuncOp main);

} // namespace kfuse::passes
