// Softmax of rows that have one score more, which takes weight and has no value: an attention sink.
#pragma once

#include "ir/dialect/Kfuse.h"

namespace kfuse::ir {

/// `weights` = softmax(scores), or slice(softmax(concat(scores, sink))) where the slice leaves the sink's column out.
struct SinkSoftmax {
  mlir::Value scores, sink, weights; ///< No sink: null.

  explicit SinkSoftmax(SoftmaxOp softmax);
};

} // namespace kfuse::ir
