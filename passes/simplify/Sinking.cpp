// Transposes, broadcasts and scales travel towards the results until a product takes them or two
// cancel. Each move shrinks the work or leaves it as it is.
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

//===- Transposes ----------------------------------------------------------------------------===//

SmallVector<int64_t> withLeadingOnes(ArrayRef<int64_t> dims, size_t rank) {
  SmallVector<int64_t> padded(rank - dims.size(), 1);
  llvm::append_range(padded, dims);
  return padded;
}

/// Whether `operand`, which broadcasts against a value transposed by `permutation`, broadcasts as well
/// against the value itself: it is transposed alike, or only dimensions of 1 move.
bool commutesWith(ArrayRef<int64_t> permutation, Value operand) {
  if (auto transpose = operand.getDefiningOp<TransposeOp>(); transpose && transpose.getPermutation() == permutation)
    return true;
  SmallVector<int64_t> dims = withLeadingOnes(dimsOf(operand), permutation.size()), moved;
  for (int64_t dim : inverse(permutation))
    if (dims[dim] != 1)
      moved.push_back(dim);
  return llvm::is_sorted(moved);
}

/// The operand of the op below a transpose, as it broadcasts against the value before the transpose.
Value beforeTranspose(ArrayRef<int64_t> permutation, Value operand, PatternRewriter &rewriter) {
  if (auto transpose = operand.getDefiningOp<TransposeOp>(); transpose && transpose.getPermutation() == permutation)
    return transpose.getOperand();
  if (typeOf(operand).getNumElements() == 1)
    return operand;
  SmallVector<int64_t> shape = permuted(withLeadingOnes(dimsOf(operand), permutation.size()), inverse(permutation));
  return reshapeTo(rewriter, operand, ArrayRef(shape).drop_while([](int64_t size) { return size == 1; }));
}

/// f(transpose x, ...) -> transpose f(x, ...).
struct SinkTranspose : RewritePattern {
  explicit SinkTranspose(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op))
      return failure();
    for (Value operand : op->getOperands()) {
      auto transpose = operand.getDefiningOp<TransposeOp>();
      if (!transpose || dimsOf(operand) != dimsOf(op->getResult(0)))
        continue;
      SmallVector<int64_t> permutation(transpose.getPermutation());
      if (llvm::all_of(op->getOperands(), [&](Value other) { return commutesWith(permutation, other); }))
        return sink(op, permutation, rewriter);
    }
    return failure();
  }

  static LogicalResult sink(Operation *op, ArrayRef<int64_t> permutation, PatternRewriter &rewriter) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(beforeTranspose(permutation, operand, rewriter));
    RankedTensorType type = typeOf(op->getResult(0));
    Value inner = cloneWith(rewriter, op, operands, type.clone(permuted(type.getShape(), inverse(permutation))));
    rewriter.replaceOpWithNewOp<TransposeOp>(op, type, inner, permutation);
    return success();
  }
};

/// A transpose that keeps rows whole commutes with what works on rows of one operand and vectors.
struct SinkTransposeOfRows : RewritePattern {
  explicit SinkTransposeOfRows(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isRowwise(op) || isa<RotaryOp>(op))
      return failure();
    auto transpose = op->getOperand(0).getDefiningOp<TransposeOp>();
    if (!transpose || transpose.getPermutation().back() != static_cast<int64_t>(transpose.getPermutation().size()) - 1)
      return failure();
    SmallVector<Value> operands(op->getOperands());
    operands[0] = transpose.getOperand();
    Value inner = cloneWith(rewriter, op, operands, operands[0].getType());
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op->getResult(0).getType(), inner, transpose.getPermutation());
    return success();
  }
};

/// matmul(transpose x, W) -> transpose(matmul(x, W)) where only rows move and W is one matrix.
LogicalResult sinkTransposeThroughMatmul(MatmulOp op, PatternRewriter &rewriter) {
  auto transpose = op.getLhs().getDefiningOp<TransposeOp>();
  if (!transpose || op.getTransposeA() || dimsOf(op.getRhs()).size() != 2)
    return failure();
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  if (permutation.back() != static_cast<int64_t>(permutation.size()) - 1)
    return failure();
  Value product = rewriter.create<MatmulOp>(op.getLoc(), transpose.getOperand(), op.getRhs(), false, op.getTransposeB(),
                                            op.getTf32());
  rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), product, permutation);
  return success();
}

//===- Broadcasts ----------------------------------------------------------------------------===//

/// f(broadcast x, y) -> f(x, y), which broadcasts by itself, or to broadcast(f(x, y)) when nothing
/// else is as large.
struct SinkBroadcast : RewritePattern {
  explicit SinkBroadcast(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op))
      return failure();
    SmallVector<Value> operands;
    SmallVector<int64_t> shape;
    for (Value operand : op->getOperands()) {
      auto broadcast = operand.getDefiningOp<BroadcastOp>();
      operands.push_back(broadcast ? broadcast.getOperand() : operand);
      ir::detail::broadcastShapes(SmallVector<int64_t>(shape), dimsOf(operands.back()), shape);
    }
    if (llvm::equal(operands, op->getOperands()))
      return failure();
    RankedTensorType type = typeOf(op->getResult(0));
    rewriter.replaceOp(op, broadcastTo(rewriter, cloneWith(rewriter, op, operands, type.clone(shape)), type));
    return success();
  }
};

/// Rows that repeat are computed once: norm(broadcast x) -> broadcast(norm x).
struct SinkBroadcastOfRows : RewritePattern {
  explicit SinkBroadcastOfRows(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isRowwise(op) || isa<RotaryOp>(op))
      return failure();
    auto broadcast = op->getOperand(0).getDefiningOp<BroadcastOp>();
    if (!broadcast || dimsOf(broadcast.getOperand()).empty() ||
        dimsOf(broadcast.getOperand()).back() != broadcast.getType().getShape().back())
      return failure();
    SmallVector<Value> operands(op->getOperands());
    operands[0] = broadcast.getOperand();
    Value inner = cloneWith(rewriter, op, operands, operands[0].getType());
    rewriter.replaceOp(op, broadcastTo(rewriter, inner, typeOf(op->getResult(0))));
    return success();
  }
};

/// An operand of a product before it was broadcast over batches or along its free dimension.
Value beforeBroadcast(Value operand, bool contractsLast) {
  auto broadcast = operand.getDefiningOp<BroadcastOp>();
  if (!broadcast || dimsOf(broadcast.getOperand()).size() < 2)
    return operand;
  unsigned fromEnd = contractsLast ? 1 : 2;
  ArrayRef<int64_t> from = dimsOf(broadcast.getOperand()), to = broadcast.getType().getShape();
  return from[from.size() - fromEnd] == to[to.size() - fromEnd] ? broadcast.getOperand() : operand;
}

LogicalResult sinkBroadcastThroughMatmul(MatmulOp op, PatternRewriter &rewriter) {
  Value lhs = beforeBroadcast(op.getLhs(), !op.getTransposeA()), rhs = beforeBroadcast(op.getRhs(), op.getTransposeB());
  if (lhs == op.getLhs() && rhs == op.getRhs())
    return failure();
  Value product =
      rewriter.create<MatmulOp>(op.getLoc(), lhs, rhs, op.getTransposeA(), op.getTransposeB(), op.getTf32());
  rewriter.replaceOp(op, broadcastTo(rewriter, product, op.getType()));
  return success();
}

/// transpose(broadcast x) -> broadcast(transpose x).
LogicalResult transposeOfBroadcast(TransposeOp op, PatternRewriter &rewriter) {
  auto broadcast = op.getOperand().getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return failure();
  ArrayRef<int64_t> from = dimsOf(broadcast.getOperand());
  SmallVector<int64_t> padded = withLeadingOnes(from, op.getPermutation().size());
  Value source = reshapeTo(rewriter, broadcast.getOperand(), padded);
  auto small = typeOf(source).clone(permuted(padded, op.getPermutation()));
  rewriter.replaceOpWithNewOp<BroadcastOp>(
      op, op.getType(), rewriter.create<TransposeOp>(op.getLoc(), small, source, op.getPermutation()));
  return success();
}

//===- Scales --------------------------------------------------------------------------------===//

/// matmul(a * s, b), matmul(a, b * s) -> matmul(a, b) * s, also through views of a or b: in the
/// epilogue the scale is free, and neither operand is written again.
LogicalResult sinkScale(MatmulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0U, 1U}) {
    SmallVector<Operation *> views;
    Value source = op->getOperand(i);
    while (isa_and_nonnull<ReshapeOp, TransposeOp, BroadcastOp>(source.getDefiningOp())) {
      views.push_back(source.getDefiningOp());
      source = views.back()->getOperand(0);
    }
    auto scaled = source.getDefiningOp<MulOp>();
    if (!scaled || !splatValue(scaled.getRhs()) || scaled.getLhs().getType() != scaled.getType())
      continue;
    Value operand = scaled.getLhs();
    for (Operation *view : llvm::reverse(views))
      operand = cloneWith(rewriter, view, operand, view->getResult(0).getType());
    Value product =
        rewriter.create<MatmulOp>(op.getLoc(), i == 0 ? operand : op.getLhs(), i == 1 ? operand : op.getRhs(),
                                  op.getTransposeA(), op.getTransposeB(), op.getTf32());
    auto scalar = RankedTensorType::get({}, op.getType().getElementType());
    rewriter.replaceOpWithNewOp<MulOp>(op, product,
                                       makeSplat(rewriter, op.getLoc(), scalar, *splatValue(scaled.getRhs())));
    return success();
  }
  return failure();
}

} // namespace

void populateSinking(RewritePatternSet &patterns) {
  patterns.add<SinkTranspose, SinkTransposeOfRows, SinkBroadcast, SinkBroadcastOfRows>(patterns.getContext());
  patterns.add(sinkTransposeThroughMatmul).add(sinkBroadcastThroughMatmul).add(transposeOfBroadcast).add(sinkScale);
}

} // namespace kfuse::passes
