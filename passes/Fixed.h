// Values that are the same in every run.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kfuse::passes {

/// On a view of a fixed value that @prepare is to store, where others are left to those who read them.
inline constexpr llvm::StringLiteral storedAttrName = "kfuse.stored";

/// "input", "parameter", "state" or "prepared"; an argument without a role is an input.
llvm::StringRef roleOf(mlir::func::FuncOp function, mlir::BlockArgument argument);

/// The values of a function of one block that depend on parameters and constants alone: @prepare can compute
/// them. What its readers compute is none, as dequantised weights: they stay in memory as they are stored.
llvm::DenseSet<mlir::Value> fixedValues(mlir::func::FuncOp function);

} // namespace kfuse::passes
