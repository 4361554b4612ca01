// Index arithmetic with known ranges.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace kfuse::ir {

/// Simplifies floordiv and mod of non-negative index expressions whose dimension i lies in
/// [0, dims[i]) and symbol j in [0, symbols[j]): splits sums into the part that a divisor divides
/// and a rest that is known to be smaller, so that (4 * d0 + d1) floordiv 4 is d0 when d1 < 4, and
/// puts (d0 floordiv 4) * 4 + d0 mod 4 together to d0. Reshapes that undo each other vanish this way.
/// No dividend of the result is negative where none was before.
mlir::AffineExpr simplifyIndex(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> dims,
                               llvm::ArrayRef<int64_t> symbols = {});

/// Largest value of an expression over those ranges, or more where its operands depend on each other.
int64_t maxOfIndex(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> symbols = {});

/// coefficient * term, where the term is a dimension, symbol, floordiv or mod; null for a constant.
struct IndexTerm {
  int64_t coefficient = 0;
  mlir::AffineExpr term;
};

/// An index expression as a sum of terms: those of `expr`, each times `factor`, join `terms`.
void collectTerms(mlir::AffineExpr expr, int64_t factor, llvm::SmallVectorImpl<IndexTerm> &terms);

/// Row-major offset of `index` in a tensor of `shape`.
mlir::AffineExpr linearise(llvm::ArrayRef<mlir::AffineExpr> index, llvm::ArrayRef<int64_t> shape,
                           mlir::MLIRContext *context);

/// The index whose row-major offset in `shape` is `offset`.
llvm::SmallVector<mlir::AffineExpr> delinearise(mlir::AffineExpr offset, llvm::ArrayRef<int64_t> shape);

/// The coefficients of an expression that is linear in its dimensions: offset + sum coefficient_i * d_i;
/// false when it is not (a floordiv or mod that stayed, or a symbol).
bool linearForm(mlir::AffineExpr expr, unsigned rank, llvm::SmallVectorImpl<int64_t> &coefficients, int64_t &offset);

/// Whether the row-major offset of `index` in a tensor of `shape` is linear in the dimensions, of sizes `dims`.
bool isStrided(mlir::AffineMap index, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);

} // namespace kfuse::ir
