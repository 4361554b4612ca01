#include "passes/fuse/WideConcats.h"

#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

constexpr size_t mostPieces = 64;

/// The pieces in fewer, each joined of up to `mostPieces`.
SmallVector<Value> joined(ArrayRef<Value> pieces, ConcatOp concat, OpBuilder &builder) {
  SmallVector<Value> result;
  for (; !pieces.empty(); pieces = pieces.drop_front(std::min(mostPieces, pieces.size()))) {
    ArrayRef<Value> some = pieces.take_front(mostPieces);
    if (some.size() == 1) {
      result.push_back(some.front());
      continue;
    }
    SmallVector<int64_t> shape(dimsOf(some.front()));
    int64_t &along = shape[concat.getAxis()] = 0;
    for (Value piece : some)
      along += dimsOf(piece)[concat.getAxis()];
    result.push_back(
        builder.create<ConcatOp>(concat.getLoc(), concat.getType().clone(shape), some, concat.getAxisAttr()));
  }
  return result;
}

} // namespace

void splitWideConcats(Block &block) {
  for (ConcatOp concat : llvm::to_vector(block.getOps<ConcatOp>())) {
    SmallVector<Value> pieces(concat->getOperands());
    OpBuilder builder(concat);
    while (pieces.size() > mostPieces)
      pieces = joined(pieces, concat, builder);
    concat->setOperands(pieces);
  }
}

} // namespace kfuse::passes
