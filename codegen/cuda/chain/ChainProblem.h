// Kernels in a row that one launch can take: products of the same rows.
#pragma once

#include "codegen/cuda/matmul/Tma.h"

namespace kfuse::codegen::cuda {

/// A product whose left operand is the chain's or the result of the layer before.
struct Layer {
  const ChainLayer &from;
  MatmulProblem product;
  TmaOperand weights, tokens;

  std::int64_t reductions; ///< Over the rows of its product, in what is fused behind it.

  unsigned tokensInput() const { return tokens.matrix.input; }
};

struct ChainProblem {
  std::vector<Layer> layers;
  std::int64_t M = 0, batches = 0;
  double memoryBytes = 0; ///< Through memory: what outgrows the last-level cache as often as layers read it.

  /// The chain, or why the region is none.
  static Result<ChainProblem> of(const Region &region, const ir::Target &target);

  std::int64_t mostColumns() const;
  std::int64_t reductions() const; ///< All layers'.
  std::int64_t buffers() const;    ///< Addresses that a layer's body takes at most: of its inputs and results.
};

} // namespace kfuse::codegen::cuda
