// Activations that exporters write out as arithmetic.
//
// A product tree is flattened into its factors and one constant, so that the order an author or
// exporter chose does not matter: 0.5 * x * (1 + erf(x / sqrt 2)) is {x, 1 + erf(p(x))} times 0.5,
// where p is read as a polynomial in x.
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

#include <array>
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// c0 + c1 x + c2 x^2 + c3 x^3.
using Cubic = std::array<double, 4>;

std::optional<Cubic> multiply(const Cubic &a, const Cubic &b) {
  Cubic product{};
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j)
      if (i + j < product.size())
        product[i + j] += a[i] * b[j];
      else if (a[i] * b[j] != 0)
        return std::nullopt;
  return product;
}

Cubic plus(const Cubic &a, const Cubic &b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]}; }

/// `value` as a polynomial in `x`, at most `depth` ops deep.
std::optional<Cubic> polynomialIn(Value value, Value x, int depth = 8) {
  if (value == x)
    return Cubic{0, 1, 0, 0};
  if (std::optional<double> constant = splatValue(value))
    return Cubic{*constant, 0, 0, 0};
  Operation *op = value.getDefiningOp();
  if (depth == 0 || !isa_and_nonnull<AddOp, MulOp, DivOp>(op))
    return std::nullopt;
  std::optional<Cubic> a = polynomialIn(op->getOperand(0), x, depth - 1);
  std::optional<Cubic> b = a ? polynomialIn(op->getOperand(1), x, depth - 1) : std::nullopt;
  if (!a || !b)
    return std::nullopt;
  if (isa<AddOp>(op))
    return plus(*a, *b);
  if (isa<MulOp>(op))
    return multiply(*a, *b);
  bool byConstant = (*b)[0] != 0 && (*b)[1] == 0 && (*b)[2] == 0 && (*b)[3] == 0;
  return byConstant ? multiply(*a, {1 / (*b)[0], 0, 0, 0}) : std::nullopt;
}

bool isPolynomial(Value value, Value x, const Cubic &expected) {
  std::optional<Cubic> found = polynomialIn(value, x);
  if (!found)
    return false;
  for (size_t i = 0; i < expected.size(); ++i)
    if (!isAbout((*found)[i], expected[i], typeOf(value).getElementType()))
      return false;
  return true;
}

/// A product of factors and one constant.
struct Product {
  double constant = 1;
  SmallVector<Value> factors;
};

void collectFactors(Value value, Product &product, int depth = 4) {
  auto mul = value.getDefiningOp<MulOp>();
  if (std::optional<double> constant = splatValue(value))
    product.constant *= *constant;
  else if (mul && depth > 0) {
    collectFactors(mul.getLhs(), product, depth - 1);
    collectFactors(mul.getRhs(), product, depth - 1);
  } else
    product.factors.push_back(value);
}

/// c (1 + f(u)) for the function Op: c, and u; c is 1, or 0.5 where 0.5 + 0.5 f(u) was written.
template <class Op> std::optional<std::pair<double, Value>> onePlus(Value value) {
  auto sum = value.getDefiningOp<AddOp>();
  std::optional<double> one = sum ? splatValue(sum.getRhs()) : std::nullopt;
  if (!one || *one == 0)
    return std::nullopt;
  Product term;
  collectFactors(sum.getLhs(), term);
  auto function = term.factors.size() == 1 ? term.factors[0].getDefiningOp<Op>() : Op();
  if (!function || !isAbout(term.constant, *one, typeOf(value).getElementType()))
    return std::nullopt;
  return std::make_pair(*one, function.getOperand());
}

/// x / 2 (1 + f(p(x))) -> Gelu x.
template <class Function, class Gelu>
LogicalResult recogniseGelu(MulOp op, const Cubic &argument, PatternRewriter &rewriter) {
  Product product;
  collectFactors(op, product);
  if (product.factors.size() != 2)
    return failure();
  for (unsigned i : {0U, 1U}) {
    Value x = product.factors[1 - i];
    auto factor = onePlus<Function>(product.factors[i]);
    if (!factor || x.getType() != op.getType() || !isPolynomial(factor->second, x, argument) ||
        !isAbout(product.constant * factor->first, 0.5, typeOf(op).getElementType()))
      continue;
    rewriter.replaceOpWithNewOp<Gelu>(op, x);
    return success();
  }
  return failure();
}

LogicalResult recogniseErfGelu(MulOp op, PatternRewriter &rewriter) {
  return recogniseGelu<ErfOp, GeluOp>(op, {0, std::numbers::sqrt2 / 2, 0, 0}, rewriter);
}

/// Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
LogicalResult recogniseTanhGelu(MulOp op, PatternRewriter &rewriter) {
  const double scale = std::sqrt(2 * std::numbers::inv_pi);
  return recogniseGelu<TanhOp, GeluTanhOp>(op, {0, scale, 0, scale * 0.044715}, rewriter);
}

/// x sigmoid(x) -> silu x.
LogicalResult recogniseSilu(MulOp op, PatternRewriter &rewriter) {
  return success(inEitherOrder(op, [&](Value x, Value gate) {
    auto sigmoid = gate.getDefiningOp<SigmoidOp>();
    if (!sigmoid || sigmoid.getOperand() != x)
      return false;
    rewriter.replaceOpWithNewOp<SiluOp>(op, x);
    return true;
  }));
}

/// u for 1 + exp(-u).
Value onePlusExp(Value value) {
  auto sum = value.getDefiningOp<AddOp>();
  auto power = sum && isExactly(sum.getRhs(), 1) ? sum.getLhs().getDefiningOp<ExpOp>() : ExpOp();
  auto negated = power ? power.getOperand().getDefiningOp<NegOp>() : NegOp();
  return negated ? negated.getOperand() : Value();
}

/// 1 / (1 + exp(-x)) -> sigmoid x; x / (1 + exp(-x)) -> silu x.
LogicalResult recogniseSigmoid(ReciprocalOp op, PatternRewriter &rewriter) {
  Value x = onePlusExp(op.getOperand());
  if (!x)
    return failure();
  rewriter.replaceOpWithNewOp<SigmoidOp>(op, x);
  return success();
}
LogicalResult recogniseDividedSilu(DivOp op, PatternRewriter &rewriter) {
  Value x = onePlusExp(op.getRhs());
  if (!x || x != op.getLhs())
    return failure();
  rewriter.replaceOpWithNewOp<SiluOp>(op, x);
  return success();
}

/// max(x, 0) -> relu x: both keep NaN.
LogicalResult recogniseRelu(MaxOp op, PatternRewriter &rewriter) {
  if (!isExactly(op.getRhs(), 0) || op.getLhs().getType() != op.getType())
    return failure();
  rewriter.replaceOpWithNewOp<ReluOp>(op, op.getLhs());
  return success();
}

} // namespace

void populateActivations(RewritePatternSet &patterns) {
  patterns.add(recogniseErfGelu).add(recogniseTanhGelu).add(recogniseSilu);
  patterns.add(recogniseSigmoid).add(recogniseDividedSilu).add(recogniseRelu);
}

} // namespace kfuse::passes
