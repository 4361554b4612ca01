// Norms as statistics of rows, applied behind the products that read them.
#pragma once

#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kfuse::passes {

/// Products of fixed weights that are all that reads a norm of theirs, in bf16: sums of rows that are not yet
/// normalised may be too large for f16, and the difference below costs f32 digits that it has. By norm, in block order.
llvm::SmallVector<llvm::SmallVector<ir::MatmulOp>> normedProducts(mlir::func::FuncOp function,
                                                                  const llvm::DenseSet<mlir::Value> &fixed);

/// With r = 1 / sqrt(variance + epsilon) and m = mean of each row (0 for rms_norm), in f32,
///
///     norm(x; gamma, beta) W  ->  r (x G) - (r m) sum_k G + beta W,    G = gamma W
///
/// so that a kernel reads x for two numbers a row instead of writing all of it again; what is fixed, sum_k G and beta
/// W, kfuse-split-prepare moves into @prepare. The products' results are what they were, rounded where they were.
void applyNormBehind(llvm::ArrayRef<ir::MatmulOp> products, const llvm::DenseSet<mlir::Value> &fixed);

} // namespace kfuse::passes
