// Products whose weights were quantised in act order take their left operand's columns in that order. Behind a norm,
// which is the same in any order, the columns are ordered before it:
//
//   x -> norm -> gather -> product    becomes    x -> gather -> norm -> product
//
// There the order is how the norm's kernel reads its rows, and no kernel of its own.
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Whether the op takes each column of its operand once.
bool ordersColumns(GatherOp op) {
  ArrayRef<int64_t> shape = dimsOf(op.getData());
  if (op.getAxis() + 1 != shape.size() || op.getType() != op.getData().getType())
    return false;
  std::optional<SmallVector<int64_t>> positions = constantPositions(op.getIndices(), shape.back());
  if (!positions)
    return false;
  llvm::sort(*positions);
  return llvm::equal(*positions, llvm::seq<int64_t>(shape.back()));
}

template <class Norm> LogicalResult orderBeforeNorm(GatherOp op, PatternRewriter &rewriter) {
  auto norm = op.getData().getDefiningOp<Norm>();
  if (!norm || !norm->hasOneUse() || !ordersColumns(op))
    return failure();
  SmallVector<Value> operands; // Rows, and vectors with an element for each column.
  for (Value operand : norm->getOperands())
    operands.push_back(rewriter.create<GatherOp>(op.getLoc(), operand.getType(), operand, op.getIndices(),
                                                 static_cast<int64_t>(dimsOf(operand).size()) - 1));
  rewriter.replaceOp(op, cloneWith(rewriter, norm, operands, op.getType()));
  return success();
}

} // namespace

void populateActOrder(RewritePatternSet &patterns) {
  patterns.add(orderBeforeNorm<RmsNormOp>).add(orderBeforeNorm<LayerNormOp>);
}

} // namespace kfuse::passes
