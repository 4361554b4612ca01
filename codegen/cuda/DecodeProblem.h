// An attention that cuda.decode_attention takes, with every access as an offset.
#pragma once

#include "codegen/KernelTemplate.h"
#include "codegen/cuda/LinearGraph.h"

#include <optional>

namespace kfuse::codegen::cuda {

/// Rows that the kernel computes and writes into the state that keys or values are read from.
struct NewRows {
  LinearGraph graph; ///< Over the dimensions of the state; along `axis` the new rows.
  unsigned axis = 0;
  /// Where in the state the rows of a pair are, over the dimensions of scores or product; those of `axis` and of the
  /// last dimension, a row's elements, say nothing.
  llvm::SmallVector<mlir::AffineExpr> index;
  unsigned output = 0; ///< The state among the region's results.

  int64_t count() const { return graph.extents()[axis]; }
};

/// The dimensions are [batch..., M, S, D] for the scores and [batch..., M, D, S] for the product; the last batch
/// dimension is the heads. A pair is a sequence and neighbouring heads that share keys and values.
struct DecodeProblem {
  LinearGraph scores, product;
  ir::Scalar query = {}, key = {};           ///< Of `scores`: a value, and a load.
  ir::Scalar value = {}, probabilities = {}; ///< Loads of `product`.
  ir::Scalar scoreProduct = {}, valueProduct = {};
  unsigned dimM = 0;
  int64_t M = 1, keys = 1, keySize = 1, valueSize = 1;
  int64_t group = 1;          ///< Neighbouring heads that share keys and values.
  bool emptyIsZero = false;   ///< A row without keys gives zeros, not NaN.
  bool computesQuery = false; ///< Else queries are loaded.
  std::optional<NewRows> newKeys = {}, newValues = {};
  unsigned output = 0; ///< What the attention gives among the region's results.

  int64_t rows() const { return M * group; }
  int64_t pairs() const {
    int64_t count = 1;
    for (unsigned dim = 0; dim < dimM; ++dim)
      count *= scores.extents()[dim];
    return count / group;
  }
  bool hasHeads() const { return dimM > 0; }
  unsigned headDim() const { return dimM - 1; }
};

/// The problem of a region; the reason where the template does not take it.
Result<DecodeProblem> decodeProblem(const Region &region);

} // namespace kfuse::codegen::cuda
