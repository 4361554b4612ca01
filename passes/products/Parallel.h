// Products that run side by side, as one.
#pragma once

#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kfuse::passes {

using Products = llvm::SmallVector<ir::MatmulOp>;

/// Products of fixed weights that one product can compute:
///
///     x W0, x W1, x W2                        x [W0 W1 W2], cut by columns: Q, K and V; gate and up
///     h[0] W0, h[1] W1, h[2] W2               h [W0; W1; W2], batched: heads one beside the other,
///                                             where each left operand is an equal part of one value
///
/// In block order; each product is in one set at most.
llvm::SmallVector<Products> parallelProducts(mlir::func::FuncOp function, const llvm::DenseSet<mlir::Value> &fixed);

/// Makes a set one product. What follows each of them alike (a bias, an activation) follows the one; the
/// parts are slices of it, which their readers read with strides. Weights are put together by ops that
/// kfuse-split-prepare moves into @prepare. A norm in front that all of them share gives its weight to theirs.
void mergeProducts(llvm::ArrayRef<ir::MatmulOp> products, const llvm::DenseSet<mlir::Value> &fixed);

} // namespace kfuse::passes
