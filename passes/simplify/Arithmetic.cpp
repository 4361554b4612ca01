#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

#include <cmath>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Replaces `op` by `value`, which may have to broadcast to its type first.
LogicalResult replaceBy(PatternRewriter &rewriter, Operation *op, Value value) {
  rewriter.replaceOp(op, broadcastTo(rewriter, value, typeOf(op->getResult(0))));
  return success();
}

/// c + x -> x + c: the patterns below look for constants on the right.
template <class Op> LogicalResult constantToTheRight(Op op, PatternRewriter &rewriter) {
  if (!splatValue(op.getLhs()) || splatValue(op.getRhs()))
    return failure();
  rewriter.replaceOpWithNewOp<Op>(op, op.getRhs(), op.getLhs());
  return success();
}

/// x + 0, x - 0, x * 1, x / 1, x^1 -> x.
template <class Op, int neutral> LogicalResult dropNeutral(Op op, PatternRewriter &rewriter) {
  return isExactly(op.getRhs(), neutral) ? replaceBy(rewriter, op, op.getLhs()) : failure();
}

/// (x + c) + d -> x + (c + d), and for products, where the element type holds the combined constant:
/// in f32 it is rounded once, but in bf16 that once may be 0.2 %.
template <class Op, class Combine> LogicalResult combineConstants(Op op, PatternRewriter &rewriter, Combine combine) {
  auto inner = op.getLhs().template getDefiningOp<Op>();
  std::optional<double> outerValue = splatValue(op.getRhs());
  std::optional<double> innerValue = inner ? splatValue(inner.getRhs()) : std::nullopt;
  if (!outerValue || !innerValue || !holdsFloats(op) || !inner->hasOneUse())
    return failure();
  auto scalar = RankedTensorType::get({}, typeOf(op).getElementType());
  double combined = combine(*innerValue, *outerValue);
  if (!scalar.getElementType().isF32() &&
      rewriter.getFloatAttr(scalar.getElementType(), combined).getValueAsDouble() != combined)
    return failure();
  Value constant = makeSplat(rewriter, op.getLoc(), scalar, combined);
  rewriter.replaceOp(op, broadcastTo(rewriter, rewriter.create<Op>(op.getLoc(), inner.getLhs(), constant), typeOf(op)));
  return success();
}
LogicalResult combineSums(AddOp op, PatternRewriter &rewriter) {
  return combineConstants(op, rewriter, [](double a, double b) { return a + b; });
}
LogicalResult combineProducts(MulOp op, PatternRewriter &rewriter) {
  return combineConstants(op, rewriter, [](double a, double b) { return a * b; });
}

/// x^2 -> x x, x^3 -> x x x, x^0.5 -> sqrt x, x^-0.5 -> rsqrt x, x^-1 -> 1 / x.
LogicalResult expandPower(PowOp op, PatternRewriter &rewriter) {
  std::optional<double> exponent = splatValue(op.getRhs());
  Value x = op.getLhs();
  if (!exponent || x.getType() != op.getType())
    return failure();
  if (*exponent == 2 || *exponent == 3) {
    Value square = rewriter.create<MulOp>(op.getLoc(), x, x);
    rewriter.replaceOp(op, *exponent == 2 ? square : rewriter.create<MulOp>(op.getLoc(), square, x));
    return success();
  }
  if (*exponent == 0.5)
    rewriter.replaceOpWithNewOp<SqrtOp>(op, x);
  else if (*exponent == -0.5)
    rewriter.replaceOpWithNewOp<RsqrtOp>(op, x);
  else if (*exponent == -1)
    rewriter.replaceOpWithNewOp<ReciprocalOp>(op, x);
  else
    return failure();
  return success();
}

/// 1 / sqrt x -> rsqrt x.
LogicalResult reciprocalOfRoot(ReciprocalOp op, PatternRewriter &rewriter) {
  auto root = op.getOperand().getDefiningOp<SqrtOp>();
  if (!root)
    return failure();
  rewriter.replaceOpWithNewOp<RsqrtOp>(op, root.getOperand());
  return success();
}

/// 1 / x -> reciprocal x; x / c -> x * (1 / c) where 1 / c is exact.
LogicalResult divideByConstant(DivOp op, PatternRewriter &rewriter) {
  if (!holdsFloats(op))
    return failure();
  if (isExactly(op.getLhs(), 1) && op.getRhs().getType() == op.getType()) {
    rewriter.replaceOpWithNewOp<ReciprocalOp>(op, op.getRhs());
    return success();
  }
  std::optional<double> divisor = splatValue(op.getRhs());
  int exponent = 0;
  if (!divisor || !std::isfinite(*divisor) || std::abs(std::frexp(*divisor, &exponent)) != 0.5 ||
      std::abs(exponent) > 14)
    return failure();
  Value factor = makeSplat(rewriter, op.getLoc(), typeOf(op.getRhs()), 1 / *divisor);
  rewriter.replaceOpWithNewOp<MulOp>(op, op.getLhs(), factor);
  return success();
}

/// x * -1, 0 - x -> -x.
LogicalResult timesMinusOne(MulOp op, PatternRewriter &rewriter) {
  if (!isExactly(op.getRhs(), -1) || op.getLhs().getType() != op.getType())
    return failure();
  rewriter.replaceOpWithNewOp<NegOp>(op, op.getLhs());
  return success();
}
LogicalResult zeroMinus(SubOp op, PatternRewriter &rewriter) {
  if (!isExactly(op.getLhs(), 0) || op.getRhs().getType() != op.getType())
    return failure();
  rewriter.replaceOpWithNewOp<NegOp>(op, op.getRhs());
  return success();
}

/// -(-x), not(not x) -> x.
template <class Op> LogicalResult undoTwice(Op op, PatternRewriter &rewriter) {
  auto inner = op.getOperand().template getDefiningOp<Op>();
  return inner ? replaceBy(rewriter, op, inner.getOperand()) : failure();
}

/// a + (-b) -> a - b; a - (-b) -> a + b.
LogicalResult addNegated(AddOp op, PatternRewriter &rewriter) {
  return success(inEitherOrder(op, [&](Value a, Value b) {
    auto negated = b.getDefiningOp<NegOp>();
    if (negated)
      rewriter.replaceOpWithNewOp<SubOp>(op, a, negated.getOperand());
    return static_cast<bool>(negated);
  }));
}
LogicalResult subtractNegated(SubOp op, PatternRewriter &rewriter) {
  auto negated = op.getRhs().getDefiningOp<NegOp>();
  if (!negated)
    return failure();
  rewriter.replaceOpWithNewOp<AddOp>(op, op.getLhs(), negated.getOperand());
  return success();
}

/// Whether every value of `from` is a value of `to`.
bool widens(Type from, Type to) {
  if (from == to || from.isInteger(1))
    return true;
  if (isa<FloatType>(from) && isa<FloatType>(to))
    return to.isF32();
  return from.isInteger(32) && to.isInteger(64);
}

/// A -> B -> C is A -> C when B holds all of A; A -> A is nothing.
LogicalResult composeCasts(CastOp op, PatternRewriter &rewriter) {
  if (op.getOperand().getType() == op.getType())
    return replaceBy(rewriter, op, op.getOperand());
  auto inner = op.getOperand().getDefiningOp<CastOp>();
  if (!inner || !widens(typeOf(inner.getOperand()).getElementType(), typeOf(inner).getElementType()))
    return failure();
  rewriter.replaceOpWithNewOp<CastOp>(op, op.getType(), inner.getOperand());
  return success();
}

/// A splat operand that only has to broadcast is a scalar.
struct ShrinkSplat : RewritePattern {
  explicit ShrinkSplat(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op) || op->getNumOperands() < 2)
      return failure();
    for (OpOperand &operand : op->getOpOperands()) {
      Attribute value = dimsOf(operand.get()).empty() ? Attribute() : splatAttribute(operand.get());
      if (!value || !othersGiveShape(op, operand))
        continue;
      auto scalar = RankedTensorType::get({}, typeOf(operand.get()).getElementType());
      Value constant = rewriter.create<ConstantOp>(op->getLoc(), DenseElementsAttr::get(scalar, value));
      rewriter.modifyOpInPlace(op, [&] { operand.set(constant); });
      return success();
    }
    return failure();
  }

  static bool othersGiveShape(Operation *op, OpOperand &left) {
    SmallVector<int64_t> shape;
    for (OpOperand &operand : op->getOpOperands())
      if (&operand != &left)
        ir::detail::broadcastShapes(SmallVector<int64_t>(shape), dimsOf(operand.get()), shape);
    return ArrayRef(shape) == dimsOf(op->getResult(0));
  }
};

/// a == b as the op of that name has it: zeros of either sign are equal, NaN is not.
bool isEqual(Attribute a, Attribute b) {
  if (auto real = dyn_cast<FloatAttr>(a))
    return real.getValue() == cast<FloatAttr>(b).getValue();
  return a == b;
}

/// where(c, a, b) == k of constants is c, or not c: masks made of ones and zeros.
LogicalResult compareChosen(EqOp op, PatternRewriter &rewriter) {
  auto choice = op.getLhs().getDefiningOp<WhereOp>();
  Attribute wanted = splatAttribute(op.getRhs());
  if (!choice || !wanted || choice.getCondition().getType() != op.getType())
    return failure();
  Attribute then = splatAttribute(choice.getThen()), otherwise = splatAttribute(choice.getOtherwise());
  if (!then || !otherwise || isEqual(then, wanted) == isEqual(otherwise, wanted))
    return failure();
  if (isEqual(then, wanted))
    rewriter.replaceOp(op, choice.getCondition());
  else
    rewriter.replaceOpWithNewOp<NotOp>(op, choice.getCondition());
  return success();
}

/// where(not c, a, b) -> where(c, b, a).
LogicalResult chooseOther(WhereOp op, PatternRewriter &rewriter) {
  auto negated = op.getCondition().getDefiningOp<NotOp>();
  if (!negated)
    return failure();
  rewriter.replaceOpWithNewOp<WhereOp>(op, negated.getOperand(), op.getOtherwise(), op.getThen());
  return success();
}

/// where(constant, a, b) and where(c, a, a).
LogicalResult chooseOne(WhereOp op, PatternRewriter &rewriter) {
  if (op.getThen() == op.getOtherwise())
    return replaceBy(rewriter, op, op.getThen());
  std::optional<double> condition = splatValue(op.getCondition());
  if (!condition)
    return failure();
  return replaceBy(rewriter, op, *condition != 0 ? op.getThen() : op.getOtherwise());
}

} // namespace

void populateArithmetic(RewritePatternSet &patterns) {
  patterns.add(constantToTheRight<AddOp>).add(constantToTheRight<MulOp>).add(constantToTheRight<MaxOp>);
  patterns.add(constantToTheRight<MinOp>);
  patterns.add(dropNeutral<AddOp, 0>).add(dropNeutral<SubOp, 0>).add(dropNeutral<MulOp, 1>).add(dropNeutral<DivOp, 1>);
  patterns.add(dropNeutral<PowOp, 1>);
  patterns.add(combineSums).add(combineProducts).add(expandPower).add(reciprocalOfRoot).add(divideByConstant);
  patterns.add(timesMinusOne).add(zeroMinus).add(undoTwice<NegOp>).add(undoTwice<NotOp>);
  patterns.add(addNegated).add(subtractNegated).add(composeCasts);
  patterns.add(chooseOne).add(chooseOther).add(compareChosen).add<ShrinkSplat>(patterns.getContext());
}

} // namespace kfuse::passes
