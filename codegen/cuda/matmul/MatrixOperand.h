// Where an operand of a product lies in memory.
#pragma once

#include "codegen/cuda/matmul/MatmulProblem.h"

namespace kfuse::codegen::cuda {

/// An operand whose element (i, k) lies at outer(batch, i) + inner(batch, k) of an input; i is m for
/// the left side, n for the right.
struct MatrixOperand {
  /// low <= outer(batch, i) + inner(batch, k) < high, or the element is 0: a window's position along one dimension.
  struct Bound {
    mlir::AffineExpr outer, inner;
    int64_t low, high;
  };

  unsigned input = 0;
  mlir::AffineExpr outer, inner;
  bool contiguousK = true; ///< Neighbours in memory differ in k, not i.
  int64_t vector = 1;      ///< Elements of an aligned access along that dimension (at most 8, or 16 of 8 bits).
  bool isFixed = false;    ///< Never written in a run (Region::isFixed).
  std::string refusal;     ///< Why the operand is none of these, or "".
  llvm::SmallVector<Bound, 3> bounds;
  bool isWindowed = false; ///< K runs through windows: in pieces, or within bounds.

  /// For operands without bounds: one that has some is refused.
  static MatrixOperand of(const MatmulProblem &problem, unsigned side, unsigned product = 0);
  static MatrixOperand withBounds(const MatmulProblem &problem, unsigned side, unsigned product = 0);
};

} // namespace kfuse::codegen::cuda
