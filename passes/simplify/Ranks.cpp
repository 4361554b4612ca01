// Fewest dimensions: a product with one matrix takes its rows as one dimension, and what is computed
// around it follows, so that [batch, sequence, channels] becomes [rows, channels] all along a block
// and regions meet without reshapes between them.
//
// Each step lowers the rank of one op and never raises another's, so the patterns end.
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// matmul(a [rows..., M, K], W [K, N]) -> a as [rows * M, K]. A product of one row a batch also takes
/// the batches that W broadcasts over as its rows: four query heads of one key head in decoding.
LogicalResult mergeRows(MatmulOp op, PatternRewriter &rewriter) {
  ArrayRef<int64_t> a = dimsOf(op.getLhs()), b = dimsOf(op.getRhs());
  if (op.getTransposeA() || a.size() <= 2)
    return failure();
  bool isMatrix = elementsIn(b.drop_back(2)) == 1;
  bool oneRow =
      a.size() == b.size() && a[a.size() - 2] == 1 && b[b.size() - 3] == 1 && a.drop_back(3) == b.drop_back(3);
  if (!isMatrix && !oneRow)
    return failure();
  SmallVector<int64_t> rows(isMatrix ? ArrayRef<int64_t>() : a.drop_back(3)), matrix(rows);
  rows.push_back(elementsIn(a.drop_front(rows.size()).drop_back()));
  rows.push_back(a.back());
  llvm::append_range(matrix, b.take_back(2));
  Value product =
      rewriter.create<MatmulOp>(op.getLoc(), reshapeTo(rewriter, op.getLhs(), rows),
                                reshapeTo(rewriter, op.getRhs(), matrix), false, op.getTransposeB(), op.getTf32());
  rewriter.replaceOp(op, reshapeTo(rewriter, product, op.getType().getShape()));
  return success();
}

/// The shape in which a tensor of `dims`, which broadcasts against `fine`, broadcasts against the
/// coarser shape: each group of merged dimensions must be whole or all ones.
std::optional<SmallVector<int64_t>> coarsened(ArrayRef<int64_t> dims, ArrayRef<int64_t> fine,
                                              ArrayRef<int64_t> counts) {
  SmallVector<int64_t> padded(fine.size() - dims.size(), 1), result;
  llvm::append_range(padded, dims);
  ArrayRef<int64_t> rest(padded), restOfFine(fine);
  for (int64_t count : counts) {
    ArrayRef<int64_t> group = rest.take_front(count);
    int64_t elements = elementsIn(group);
    if (elements != 1 && group != restOfFine.take_front(count))
      return std::nullopt;
    result.push_back(elements);
    rest = rest.drop_front(count);
    restOfFine = restOfFine.drop_front(count);
  }
  return result;
}

/// Computes an elementwise or rowwise op in the shape of lower rank that a reshape before or after it
/// names.
struct LowerRank : RewritePattern {
  explicit LowerRank(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op) && !isRowwise(op))
      return failure();
    ArrayRef<int64_t> dims = dimsOf(op->getResult(0));
    for (Value operand : op->getOperands())
      if (auto reshape = operand.getDefiningOp<ReshapeOp>();
          reshape && reshape.getType().getShape() == dims && computed(reshape.getOperand()) &&
          succeeded(lower(op, dimsOf(reshape.getOperand()), rewriter)))
        return success();
    for (Operation *user : op->getUsers())
      if (auto reshape = dyn_cast<ReshapeOp>(user);
          reshape && succeeded(lower(op, reshape.getType().getShape(), rewriter)))
        return success();
    return failure();
  }

  /// A reshape of an argument costs nothing wherever it is.
  static bool computed(Value value) { return value.getDefiningOp() && !isa<ConstantOp>(value.getDefiningOp()); }

  static LogicalResult lower(Operation *op, ArrayRef<int64_t> coarse, PatternRewriter &rewriter) {
    RankedTensorType type = typeOf(op->getResult(0));
    if (static_cast<int64_t>(coarse.size()) >= type.getRank())
      return failure();
    auto counts = mergedCounts(type.getShape(), coarse);
    bool rowwise = isRowwise(op);
    if (!counts || (rowwise && (coarse.empty() || coarse.back() != type.getShape().back())))
      return failure();
    SmallVector<SmallVector<int64_t>> shapes;
    for (Value operand : op->getOperands()) {
      bool isRowVector = rowwise && dimsOf(operand).size() == 1;
      auto shape =
          isRowVector ? SmallVector<int64_t>(dimsOf(operand)) : coarsened(dimsOf(operand), type.getShape(), *counts);
      if (!shape)
        return failure();
      shapes.push_back(*shape);
    }
    SmallVector<Value> operands;
    for (auto [operand, shape] : llvm::zip_equal(op->getOperands(), shapes)) {
      auto trimmed = ArrayRef(shape).drop_while([](int64_t size) { return size == 1; });
      bool broadcasts = !rowwise && elementsIn(shape) != elementsIn(coarse);
      operands.push_back(reshapeTo(rewriter, operand, broadcasts ? trimmed : ArrayRef(shape)));
    }
    Value lowered = cloneWith(rewriter, op, operands, type.clone(coarse));
    rewriter.replaceOp(op, reshapeTo(rewriter, lowered, type.getShape()));
    return success();
  }
};

} // namespace

void populateRanks(RewritePatternSet &patterns) {
  patterns.add(mergeRows);
  patterns.add<LowerRank>(patterns.getContext());
}

} // namespace kfuse::passes
