// Norms and softmax that exporters write out over a row x of n elements:
//
//   x -> x^2 -> mean -> + epsilon -> sqrt -> 1 / . -.
//   `-------------------------------------------- * -> * weight        rms_norm
//   x - mean(x) in place of x                      -> * weight -> + bias   layer_norm
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// epsilon when `value` is mean(x^2) + epsilon.
std::optional<double> meanSquarePlus(Value value, Value x) {
  auto sum = value.getDefiningOp<AddOp>();
  if (!sum)
    return std::nullopt;
  Value row = reducedRow(sum.getLhs(), "mean");
  auto square = row ? row.getDefiningOp<MulOp>() : MulOp();
  if (!square || square.getLhs() != x || square.getRhs() != x)
    return std::nullopt;
  return splatValue(sum.getRhs());
}

LogicalResult replaceByRmsNorm(Operation *op, Value x, Value variance, PatternRewriter &rewriter) {
  std::optional<double> epsilon = meanSquarePlus(variance, x);
  if (!epsilon || x.getType() != op->getResult(0).getType())
    return failure();
  rewriter.replaceOpWithNewOp<RmsNormOp>(op, x, Value(), rewriter.getF32FloatAttr(static_cast<float>(*epsilon)));
  return success();
}

/// x * rsqrt(mean(x^2) + epsilon).
LogicalResult recogniseRmsNorm(MulOp op, PatternRewriter &rewriter) {
  return success(inEitherOrder(op, [&](Value x, Value scale) {
    auto root = peelViews(scale).getDefiningOp<RsqrtOp>();
    return root && succeeded(replaceByRmsNorm(op, x, root.getOperand(), rewriter));
  }));
}

/// x / sqrt(mean(x^2) + epsilon).
LogicalResult recogniseDividedRmsNorm(DivOp op, PatternRewriter &rewriter) {
  auto root = peelViews(op.getRhs()).getDefiningOp<SqrtOp>();
  return root ? replaceByRmsNorm(op, op.getLhs(), root.getOperand(), rewriter) : failure();
}

/// rms_norm(x - mean(x)) is layer_norm(x): the mean square of what is centred is the variance.
LogicalResult recogniseLayerNorm(RmsNormOp op, PatternRewriter &rewriter) {
  auto centred = op.getOperand().getDefiningOp<SubOp>();
  if (!centred || reducedRow(centred.getRhs(), "mean") != centred.getLhs())
    return failure();
  rewriter.replaceOpWithNewOp<LayerNormOp>(op, centred.getLhs(), op.getWeight(), Value(), op.getEpsilonAttr());
  return success();
}

/// `vector` as one element per column of `rows`, when it has that shape up to leading ones.
Value asRowVector(Value vector, Value rows, PatternRewriter &rewriter) {
  int64_t columns = dimsOf(rows).back();
  if (typeOf(vector).getNumElements() != columns || dimsOf(vector).empty() || dimsOf(vector).back() != columns)
    return {};
  return reshapeTo(rewriter, vector, {columns});
}

/// norm(x) * w -> norm(x, w).
template <class Norm> LogicalResult absorbWeight(MulOp op, PatternRewriter &rewriter) {
  return success(inEitherOrder(op, [&](Value rows, Value vector) {
    auto norm = rows.template getDefiningOp<Norm>();
    if (!norm || norm.getWeight() || !norm->hasOneUse() || norm.getType() != op.getType())
      return false;
    Value weight = asRowVector(vector, rows, rewriter);
    if (!weight)
      return false;
    Norm replacement = cast<Norm>(rewriter.clone(*norm));
    rewriter.modifyOpInPlace(replacement, [&] { replacement.getWeightMutable().assign(weight); });
    rewriter.replaceOp(op, replacement);
    return true;
  }));
}

/// layer_norm(x, w) + b -> layer_norm(x, w, b).
LogicalResult absorbBias(AddOp op, PatternRewriter &rewriter) {
  return success(inEitherOrder(op, [&](Value rows, Value vector) {
    auto norm = rows.getDefiningOp<LayerNormOp>();
    if (!norm || !norm.getWeight() || norm.getBias() || !norm->hasOneUse() || norm.getType() != op.getType())
      return false;
    Value bias = asRowVector(vector, rows, rewriter);
    if (bias)
      rewriter.replaceOpWithNewOp<LayerNormOp>(op, norm.getOperand(), norm.getWeight(), bias, norm.getEpsilonAttr());
    return static_cast<bool>(bias);
  }));
}

/// cast(norm(cast x, cast w)) between a narrow float and f32 is the norm in the narrow float: norms
/// compute in f32 anyway and round once, at the same place.
template <class Norm> LogicalResult absorbCasts(CastOp op, PatternRewriter &rewriter) {
  auto norm = op.getOperand().template getDefiningOp<Norm>();
  if (!norm || !norm->hasOneUse() || !typeOf(norm).getElementType().isF32() || !holdsFloats(op))
    return failure();
  SmallVector<Value> narrow;
  for (Value operand : norm->getOperands()) {
    auto widening = operand.getDefiningOp<CastOp>();
    if (!widening || typeOf(widening.getOperand()).getElementType() != typeOf(op).getElementType())
      return failure();
    narrow.push_back(widening.getOperand());
  }
  auto replacement = cast<Norm>(rewriter.clone(*norm));
  rewriter.modifyOpInPlace(replacement, [&] {
    replacement->setOperands(narrow);
    replacement->getResult(0).setType(op.getType());
  });
  rewriter.replaceOp(op, replacement);
  return success();
}

/// exp(x - max x) / sum exp(x - max x) -> softmax x.
LogicalResult recogniseSoftmax(DivOp op, PatternRewriter &rewriter) {
  auto power = op.getLhs().getDefiningOp<ExpOp>();
  auto shifted = power ? power.getOperand().getDefiningOp<SubOp>() : SubOp();
  if (!shifted || reducedRow(op.getRhs(), "sum") != power.getResult() ||
      reducedRow(shifted.getRhs(), "max") != shifted.getLhs())
    return failure();
  rewriter.replaceOpWithNewOp<SoftmaxOp>(op, shifted.getLhs());
  return success();
}

/// softmax(x - max x) -> softmax x.
LogicalResult dropShift(SoftmaxOp op, PatternRewriter &rewriter) {
  auto shifted = op.getOperand().getDefiningOp<SubOp>();
  if (!shifted || reducedRow(shifted.getRhs(), "max") != shifted.getLhs())
    return failure();
  rewriter.replaceOpWithNewOp<SoftmaxOp>(op, shifted.getLhs());
  return success();
}

} // namespace

void populateNorms(RewritePatternSet &patterns) {
  patterns.add(recogniseRmsNorm)
      .add(recogniseDividedRmsNorm)
      .add(recogniseLayerNorm)
      .add(recogniseSoftmax)
      .add(dropShift);
  patterns.add(absorbWeight<RmsNormOp>).add(absorbWeight<LayerNormOp>).add(absorbBias);
  patterns.add(absorbCasts<RmsNormOp>).add(absorbCasts<LayerNormOp>).add(absorbCasts<SoftmaxOp>);
}

} // namespace kfuse::passes
