// An attention as one graph, for kernels that write it from top to bottom.
#pragma once

#include "codegen/cuda/attention/FlashProblem.h"

namespace kfuse::codegen::cpu {

/// The two products of an attention and its softmax over the dimensions [batch..., rows, keys, D, elements of a value].
struct AttentionForm {
  LinearGraph graph; ///< Its outputs are the region's.
  unsigned dimRow, dimKey, dimD, dimValue;
  int64_t rows, keys, keySize, valueSize;
  ir::Scalar query, key, value;          ///< Loads; queries are scaled where scores are products times a number.
  ir::Scalar scoreProduct, valueProduct; ///< What products of these are.
  ir::Scalar score;                      ///< What the softmax takes.
  ir::Scalar seenScore;                  ///< The same of a key inside the bounds.
  ir::Scalar largest, power;             ///< A row's largest score, and e^(score - largest).
  ir::Scalar sinkPower;                  ///< The same of the row's sink; null where it has none.
  KeyBounds bounds;
  bool emptyIsZero; ///< A row without keys, or with scores that are no numbers, gives zeros, not NaN.

  explicit AttentionForm(const cuda::FlashProblem &problem);
};

} // namespace kfuse::codegen::cpu
