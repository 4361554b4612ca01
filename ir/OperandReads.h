// Which elements of its operands an op reads.
#pragma once

#include "ir/dialect/Kfuse.h"

namespace kfuse::ir {

/// For each operand the indices at which the op reads it for its result's element at `index`, in order. Along a row
/// that is reduced, or K, it reads at `reduction`; without one such reads are left out. Symbols stand for indices that
/// are looked up.
llvm::SmallVector<llvm::SmallVector<llvm::SmallVector<mlir::AffineExpr>>>
operandReads(FusableOpInterface op, llvm::ArrayRef<mlir::AffineExpr> index, mlir::AffineExpr reduction);

} // namespace kfuse::ir
