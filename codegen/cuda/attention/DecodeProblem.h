// An attention that cuda.decode_attention takes, with every access as an offset.
#pragma once

#include "codegen/KernelTemplate.h"
#include "codegen/KeyBounds.h"
#include "codegen/LinearGraph.h"
#include "codegen/cuda/attention/NewRows.h"

#include <optional>
#include <vector>

namespace kfuse::codegen::cuda {

/// The dimensions are [batch..., M, S, D] for the scores and [batch..., M, D, S] for the product; the last batch
/// dimension is the heads. A pair is a sequence and neighbouring heads that share keys and values.
struct DecodeProblem {
  LinearGraph scores, product;
  std::optional<LinearGraph> sink;           ///< A score of each row that no key has, over the scores' dimensions.
  ir::Scalar query = {}, key = {};           ///< Nodes of `scores`: a value, and a load.
  ir::Scalar value = {}, probabilities = {}; ///< Loads of `product`.
  ir::Scalar scoreProduct = {}, valueProduct = {};
  unsigned dimM = 0;
  int64_t M = 1, keys = 1, keySize = 1, valueSize = 1;
  int64_t group = 1;          ///< Neighbouring heads that share keys and values.
  bool emptyIsZero = false;   ///< A row without keys, or with scores that are no numbers, gives zeros, not NaN.
  bool computesQuery = false; ///< False: queries are loaded. It may take totals of its head: a norm's.
  CacheUpdate update = {};
  std::vector<ir::Scalar> fixed =
      {}; ///< Nodes of the scores that are the same for all rows and keys of a pair: computed once.
  llvm::SmallVector<ReadBound, 1> lasts = {}; ///< Keys behind each of these, for the pair's last row, do not count.
  /// Whether all that is read before the first tiles arrive may be read before the predecessor ends: the cache, and
  /// what says which of it counts.
  bool readsAhead = false;

  int64_t rows() const { return M * group; }
  int64_t pairs() const {
    int64_t count = 1;
    for (unsigned dim = 0; dim < dimM; ++dim)
      count *= scores.extents()[dim];
    return count / group;
  }
  bool hasHeads() const { return dimM > 0; }
  unsigned headDim() const { return dimM - 1; }
  unsigned dimS() const { return dimM + 1; }
  /// Whether the kernel does more than the attention alone: it computes operands, updates states or reads ahead.
  bool isExtended() const { return computesQuery || update.writes() || readsAhead; }
};

/// The problem of a region; the reason where the template does not take it.
Result<DecodeProblem> decodeProblem(const Region &region);

} // namespace kfuse::codegen::cuda
