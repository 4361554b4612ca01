// An attention that cuda.flash_attention takes, with every access as an offset.
#pragma once

#include "codegen/KernelTemplate.h"
#include "codegen/KeyBounds.h"
#include "codegen/LinearGraph.h"
#include "codegen/cuda/attention/NewRows.h"

#include <optional>
#include <string>
#include <vector>

namespace kfuse::codegen::cuda {

/// Queries, keys or values as a tensor [batch, rows, elements] of which TMA brings boxes.
struct FlashRowsMap {
  uint32_t buffer = 0;
  mlir::AffineExpr batch; ///< The batch coordinate, over the batch dimensions.
  uint64_t batches = 1, rows = 1, elements = 1, batchBytes = 0, rowBytes = 0, offsetBytes = 0;

  /// For boxes of 128 bytes of `boxRows` rows.
  TensorMapRecipe recipe(DType type, int64_t boxRows) const;
};

struct FlashMaps {
  FlashRowsMap keys, values;
  std::optional<FlashRowsMap> queries; ///< None where they are computed.
  std::optional<FlashRowsMap> mask;    ///< Rows of keys; none where FlashProblem::mask is none.
};

/// The dimensions are [batch..., rows, keys, D] for the scores and [batch..., rows, D, keys] for the product; heads are
/// batch dimensions.
struct FlashProblem {
  LinearGraph scores, product;
  std::optional<LinearGraph> sink;           ///< A score of each row that no key has, over the scores' dimensions.
  ir::Scalar query = {}, key = {};           ///< Nodes of `scores`: a value, and a load.
  ir::Scalar value = {}, probabilities = {}; ///< Loads of `product`.
  ir::Scalar scoreProduct = {}, valueProduct = {};
  int64_t rows = 1, keys = 1, keySize = 1, valueSize = 1;
  int64_t group = 1;             ///< Neighbouring heads that share keys and values.
  int64_t groupDim = 0;          ///< The dimension of those heads.
  int64_t period = 0;            ///< Rows of a head, where those of a group are the rows of one; else 0.
  std::string onlyScalar = {};   ///< Why tensor cores do not take it, or "": then f32 multiplies it.
  bool computesQuery = false;    ///< Else they are loaded. They may take totals of their head: a norm's.
  int64_t queryBytes = 0;        ///< What eight elements of a computed one are made of.
  bool emptyIsZero = false;      ///< A row without keys, or with scores that are no numbers, gives zeros, not NaN.
  KeyBounds bounds = {};         ///< Keys outside are not looked at.
  std::optional<double> scale{}; ///< Scores of keys inside are products times this.
  CacheUpdate update = {};
  ir::Scalar mask = {};            ///< Load of a mask, or a bias, of every row and key that TMA can read; or none.
  int64_t maskHeads = 1;           ///< Neighbouring batches that have one mask of these.
  ir::Scalar heldMask = {};        ///< The same where several batches have one, which TMA need not read.
  int64_t batchStride = 1;         ///< From one of these batches to the next; 1 without such a mask.
  std::vector<ir::Scalar> ofRow{}; ///< Nodes of the scores that are loaded, or made of such, and the same for all keys.

  unsigned rank() const { return scores.extents().size(); }
  unsigned dimRow() const { return rank() - 3; }
  /// The scores' columns are keys, the product's are elements of a value.
  unsigned dimColumn() const { return rank() - 2; }
  DType type() const { return scores.graph.inputs[scores[key].input].type; }
  /// Bytes of an element of the mask; 0 where there is none.
  int64_t maskBytes() const;
  int64_t heldMaskBytes() const;
  /// Nothing where TMA cannot read one of them.
  std::optional<FlashMaps> maps() const;
  int64_t batches() const;
  /// Keys that some of the rows from `first` to `last` see, from the first to behind the last.
  int64_t firstKey(int64_t first) const { return bounds.firstKey(period > 0 ? 0 : first); }
  int64_t endKey(int64_t last) const { return bounds.endKey(period > 0 ? period - 1 : last, keys); }
  /// Batches of different keys.
  int64_t keyBatches() const;
};

/// The problem of a region; the reason where the template does not take it. With `packed` the rows of a group's heads
/// are those of one head, which fill a tile where a head has few: head h * group + i has row r as i * period + r.
Result<FlashProblem> flashProblem(const Region &region, bool packed = false);

} // namespace kfuse::codegen::cuda
