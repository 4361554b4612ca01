#include "ir/dialect/SinkSoftmax.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::ir {

/// The slice that leaves out the last column of a softmax, where nothing else reads that; null for any other use.
static Value withoutLastColumn(SoftmaxOp softmax, Type type) {
  auto slice = softmax->hasOneUse() ? dyn_cast<SliceOp>(*softmax->user_begin()) : SliceOp();
  const bool isLeading = slice && slice.getType() == type &&
                         llvm::all_of(slice.getOffsets(), [](int64_t offset) { return offset == 0; }) &&
                         llvm::all_of(slice.getStrides(), [](int64_t stride) { return stride == 1; });
  return isLeading ? slice.getResult() : Value();
}

SinkSoftmax::SinkSoftmax(SoftmaxOp softmax) : scores(softmax.getOperand()), weights(softmax.getResult()) {
  auto concat = scores.getDefiningOp<ConcatOp>();
  if (!concat || concat->getNumOperands() != 2 ||
      static_cast<int64_t>(concat.getAxis()) + 1 != concat.getType().getRank() ||
      dimsOf(concat->getOperand(1)).back() != 1)
    return;
  if (Value kept = withoutLastColumn(softmax, concat->getOperand(0).getType()))
    scores = concat->getOperand(0), sink = concat->getOperand(1), weights = kept;
}

} // namespace kfuse::ir
