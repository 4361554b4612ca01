// Values that are the same in every run.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kfuse::passes {

/// "input", "parameter", "state" or "prepared"; an argument without a role is an input.
llvm::StringRef roleOf(mlir::func::FuncOp function, mlir::BlockArgument argument);

/// The values of a function of one block that depend on parameters and constants alone: @prepare can compute
/// them.
llvm::DenseSet<mlir::Value> fixedValues(mlir::func::FuncOp function);

} // namespace kfuse::passes
