// Norms as statistics of rows, applied behind the products that read them.
#pragma once

#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kfuse::passes {

/// Products of fixed weights that are all that reads an rms_norm of theirs, in bf16: sums of rows that are not yet
/// normalised may be too large for f16. By norm, in block order. A layer_norm stays in front: behind a product it is a
/// difference of two terms that may cancel, of which bf16 would hold too little where they are stored before they meet.
llvm::SmallVector<llvm::SmallVector<ir::MatmulOp>> normedProducts(mlir::func::FuncOp function,
                                                                  const llvm::DenseSet<mlir::Value> &fixed);

/// With r = 1 / sqrt(mean of squares + epsilon) of each row, in f32,
///
///     rms_norm(x; gamma) W  ->  r (x G),    G = gamma W
///
/// so that a kernel reads x for a number a row instead of writing all of it again; what is fixed, G,
/// kfuse-split-prepare moves into @prepare. G is rounded once more, the norm's result no more, and the product's result
/// once where the scale is not in its kernel.
void applyNormBehind(llvm::ArrayRef<ir::MatmulOp> products, const llvm::DenseSet<mlir::Value> &fixed);

} // namespace kfuse::passes
