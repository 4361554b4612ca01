// Hyperbolic and inverse functions, composed so that they keep their digits near 0 and do not overflow before their
// results do. All in f32.
#include "ir/import/onnx/arithmetic/Ops.h"

#include <cmath>
#include <numbers>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Above it log(2 x) is asinh and acosh in f32: they differ by 1 / (4 x^2).
constexpr double large = 8192;

template <auto function> Values inF32(Node &node) {
  Emitter &emit = node.emit;
  if (!isFloat(node.type(0)))
    return node.fail("its operand is of an integer type");
  return emit.cast(function(emit, emit.cast(node.input(0), DType::F32)), node.type(0));
}

/// An odd function, given what it is for |x|. 0 keeps its sign.
Value odd(Emitter &emit, Value x, Value ofAbsolute) {
  Value zero = emit.scalarLike(x, 0);
  Value otherwise = emit.where(emit.binary<LtOp>(x, zero), emit.unary<NegOp>(ofAbsolute), x);
  return emit.where(emit.binary<GtOp>(x, zero), ofAbsolute, otherwise);
}

Value logOfTwice(Emitter &emit, Value x) { return emit.add(emit.unary<LogOp>(x), std::numbers::ln2); }

/// e^|x| / 2, and e^-|x| / 2. The square of e^(|x| / 2) overflows where the function does, not before.
struct Exponentials {
  Value growing, falling;
  Exponentials(Emitter &emit, Value absolute) {
    Value root = emit.unary<ExpOp>(emit.mul(absolute, 0.5));
    growing = emit.mul(emit.mul(root, 0.5), root);
    falling = emit.mul(emit.unary<ExpOp>(emit.unary<NegOp>(absolute)), 0.5);
  }
};

Value cosh(Emitter &emit, Value x) {
  Exponentials halves(emit, emit.unary<AbsOp>(x));
  return emit.add(halves.growing, halves.falling);
}

/// Near 0, with t = e^|x| - 1: (t + t / (1 + t)) / 2.
Value sinh(Emitter &emit, Value x) {
  Value absolute = emit.unary<AbsOp>(x), t = emit.unary<Expm1Op>(absolute);
  Value small = emit.mul(emit.add(t, emit.div(t, emit.add(t, 1.0))), 0.5);
  Exponentials halves(emit, absolute);
  Value isSmall = emit.binary<LtOp>(absolute, emit.scalarLike(absolute, 1));
  return odd(emit, x, emit.where(isSmall, small, emit.sub(halves.growing, halves.falling)));
}

/// (1 - x) (1 + x), exact where 1 - x^2 is not.
Value oneMinusSquare(Emitter &emit, Value x) { return emit.mul(emit.sub(emit.scalarLike(x, 1), x), emit.add(x, 1.0)); }

Value arcsine(Emitter &emit, Value x) {
  return emit.unary<AtanOp>(emit.div(x, emit.unary<SqrtOp>(oneMinusSquare(emit, x))));
}

/// 2 atan(sqrt((1 - x) / (1 + x))).
Value arccosine(Emitter &emit, Value x) {
  Value one = emit.scalarLike(x, 1);
  Value tangent = emit.unary<SqrtOp>(emit.div(emit.sub(one, x), emit.add(x, 1.0)));
  return emit.mul(emit.unary<AtanOp>(tangent), 2);
}

/// log(|x| + sqrt(1 + x^2)) as log1p(|x| + x^2 / (1 + sqrt(1 + x^2))).
Value areaSine(Emitter &emit, Value x) {
  Value absolute = emit.unary<AbsOp>(x), square = emit.mul(x, x);
  Value root = emit.unary<SqrtOp>(emit.add(square, 1.0));
  Value small = emit.unary<Log1pOp>(emit.add(absolute, emit.div(square, emit.add(root, 1.0))));
  Value isLarge = emit.binary<GtOp>(absolute, emit.scalarLike(absolute, large));
  return odd(emit, x, emit.where(isLarge, logOfTwice(emit, absolute), small));
}

/// With t = x - 1: log1p(t + sqrt(t (t + 2))).
Value areaCosine(Emitter &emit, Value x) {
  Value t = emit.add(x, -1.0), root = emit.unary<SqrtOp>(emit.mul(t, emit.add(t, 2.0)));
  // Far below -1 the sum rounds to what has a logarithm.
  Value outside = emit.binary<LtOp>(x, emit.scalarLike(x, 1));
  Value small = emit.unary<Log1pOp>(emit.where(outside, emit.scalarLike(x, -2), emit.add(t, root)));
  return emit.where(emit.binary<GtOp>(x, emit.scalarLike(x, large)), logOfTwice(emit, x), small);
}

/// log1p(2 |x| / (1 - |x|)) / 2.
Value areaTangent(Emitter &emit, Value x) {
  Value absolute = emit.unary<AbsOp>(x), one = emit.scalarLike(x, 1);
  Value ratio = emit.div(emit.mul(absolute, 2), emit.sub(one, absolute));
  return odd(emit, x, emit.mul(emit.unary<Log1pOp>(ratio), 0.5));
}

Values arctangent(Node &node) { return node.emit.unary<AtanOp>(node.input(0)); }

constexpr OnnxOp table[] = {
    {"Acos", 1, 1, inF32<arccosine>}, {"Acosh", 1, 1, inF32<areaCosine>}, {"Asin", 1, 1, inF32<arcsine>},
    {"Asinh", 1, 1, inF32<areaSine>}, {"Atan", 1, 1, arctangent},         {"Atanh", 1, 1, inF32<areaTangent>},
    {"Cosh", 1, 1, inF32<cosh>},      {"Sinh", 1, 1, inF32<sinh>},
};

} // namespace

llvm::ArrayRef<OnnxOp> trigonometryOps() { return table; }

} // namespace kfuse::ir::onnx
