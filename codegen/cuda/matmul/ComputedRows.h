// Left operands of products that are computed row by row in the product's kernel: a norm in front of it.
#pragma once

#include "codegen/cuda/matmul/MatmulPrinter.h"
#include "codegen/cuda/rows/RowPasses.h"

namespace kfuse::codegen::cuda {

/// The rows of a left operand as a region of rows of its own, along K. They are rounded to the type of the right
/// operand, as they would be in memory.
class ComputedRows {
public:
  /// Whether reductions beside the product run over its terms, for its left operand alone.
  static bool isIn(const MatmulProblem &problem);
  /// The bytes of all rows in shared memory.
  static int64_t bytes(const MatmulProblem &problem);

  explicit ComputedRows(const MatmulProblem &problem);

  /// Why no kernel computes them, or "".
  std::string refusal() const;
  int64_t reductionCount() const;
  /// `struct <name>`, whose `row` computes one with all `threads` of a block; returns its value, "<name>{in0, in2}".
  std::string write(MatmulPrinter &printer, const std::string &name, int64_t threads) const;

private:
  const MatmulProblem &problem;
  LinearGraph graph; ///< The region's, with the left operand as its only result.
  RowPasses passes;
};

} // namespace kfuse::codegen::cuda
