// Index arithmetic with known ranges.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace kfuse::ir {

/// Simplifies floordiv and mod of non-negative index expressions whose dimension i lies in
/// [0, dims[i]) and symbol j in [0, symbols[j]): splits sums into the part that a divisor divides
/// and a rest that is known to be smaller, so that (4 * d0 + d1) floordiv 4 is d0 when d1 < 4.
/// Reshapes that undo each other vanish this way.
mlir::AffineExpr simplifyIndex(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> symbols = {});

/// Largest value of a non-negative expression over those ranges.
int64_t maxOfIndex(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> symbols = {});

/// Row-major offset of `index` in a tensor of `shape`.
mlir::AffineExpr linearise(llvm::ArrayRef<mlir::AffineExpr> index, llvm::ArrayRef<int64_t> shape, mlir::MLIRContext *context);

/// The index whose row-major offset in `shape` is `offset`.
llvm::SmallVector<mlir::AffineExpr> delinearise(mlir::AffineExpr offset, llvm::ArrayRef<int64_t> shape);

/// The coefficients of an expression that is linear in its dimensions: offset + sum coefficient_i * d_i;
/// false when it is not (a floordiv or mod that stayed, or a symbol).
bool linearForm(mlir::AffineExpr expr, unsigned rank, llvm::SmallVectorImpl<int64_t> &coefficients, int64_t &offset);

} // namespace kfuse::ir
