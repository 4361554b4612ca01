// The weight of a norm in the weights of the products behind it.
#pragma once

#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseSet.h"

namespace kfuse::passes {

/// The norm whose result, but for its shape, a product's left operand is; null when it is another value.
mlir::Operation *normBehind(mlir::Value lhs);

/// Whether nothing but these products reads `value`, as their left operand, but for its shape.
bool isReadByAlone(mlir::Value value, llvm::ArrayRef<ir::MatmulOp> products);

/// norm(x, gamma) W -> norm(x) (gamma W), where `products` are all that reads the norm: gamma scales the rows
/// of W once, in @prepare. The weights are rounded once more, the norm's result once as before. Does nothing
/// where the left operand of the products is no such norm, or has a bias.
///
/// By itself this saves a vector's bytes and costs a copy of W, so it is for weights that are rewritten anyway.
void foldNormWeight(llvm::ArrayRef<ir::MatmulOp> products, const llvm::DenseSet<mlir::Value> &fixed);

} // namespace kfuse::passes
