// Elementwise ops. What the dialect lacks is composed of what it has.
#include "ir/import/onnx/Ops.h"

#include <limits>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Op> Values unary(Node &node) { return node.emit.unary<Op>(node.input(0)); }
template <class Op> Values binary(Node &node) { return node.emit.binary<Op>(node.input(0), node.input(1)); }

template <class Op> Values variadic(Node &node) {
  Value result = node.input(0);
  for (Value next : node.allInputs().drop_front())
    result = node.emit.binary<Op>(result, next);
  return result;
}

Values mean(Node &node) { return node.emit.mul(variadic<AddOp>(node).front(), 1.0 / node.inputCount()); }

Values identity(Node &node) { return node.input(0); }

Value clamp(Node &node, Value x, Value low, Value high) {
  if (low)
    x = node.emit.binary<MaxOp>(x, low);
  return high ? node.emit.binary<MinOp>(x, high) : x;
}

Values clip(Node &node) { return clamp(node, node.input(0), node.input(1), node.input(2)); }

Values where(Node &node) { return node.emit.where(node.input(0), node.input(1), node.input(2)); }

Values ceiling(Node &node) {
  Emitter &emit = node.emit;
  return emit.unary<NegOp>(emit.unary<FloorOp>(emit.unary<NegOp>(node.input(0))));
}

Values tangent(Node &node) { return node.emit.div(unary<SinOp>(node).front(), unary<CosOp>(node).front()); }

/// max(x, 0) + log(1 + e^-|x|): e^x alone overflows.
Values softplus(Node &node) {
  Emitter &emit = node.emit;
  Value x = node.input(0);
  Value tail = emit.unary<ExpOp>(emit.unary<NegOp>(emit.unary<AbsOp>(x)));
  return emit.add(emit.unary<ReluOp>(x), emit.unary<LogOp>(emit.add(tail, 1.0)));
}

Values mish(Node &node) { return node.emit.mul(node.input(0), node.emit.unary<TanhOp>(softplus(node).front())); }

Values softsign(Node &node) {
  Emitter &emit = node.emit;
  return emit.div(node.input(0), emit.add(emit.unary<AbsOp>(node.input(0)), 1.0));
}

Values gelu(Node &node) {
  llvm::StringRef approximate = node.text("approximate", "none");
  if (approximate == "tanh")
    return unary<GeluTanhOp>(node);
  return approximate == "none" ? unary<GeluOp>(node) : node.fail("approximate '" + approximate + "'; none or tanh");
}

/// x where x > 0, else `negative`.
Value whenPositive(Node &node, Value x, Value negative) {
  Emitter &emit = node.emit;
  return emit.where(emit.binary<GtOp>(x, emit.scalarLike(x, 0)), x, negative);
}

Values elu(Node &node) {
  Emitter &emit = node.emit;
  Value x = node.input(0);
  return whenPositive(node, x, emit.mul(emit.add(emit.unary<ExpOp>(x), -1.0), node.real("alpha", 1)));
}

Values leakyRelu(Node &node) {
  Value x = node.input(0);
  return whenPositive(node, x, node.emit.mul(x, node.real("alpha", 0.01)));
}

Values prelu(Node &node) { return whenPositive(node, node.input(0), node.emit.mul(node.input(0), node.input(1))); }

/// alpha x + beta, kept within 0 and 1.
Value ramp(Node &node, double alpha, double beta) {
  Emitter &emit = node.emit;
  Value x = node.input(0);
  return clamp(node, emit.add(emit.mul(x, alpha), beta), emit.scalarLike(x, 0), emit.scalarLike(x, 1));
}

Values hardSigmoid(Node &node) { return ramp(node, node.real("alpha", 0.2F), node.real("beta", 0.5)); }
Values hardSwish(Node &node) { return node.emit.mul(node.input(0), ramp(node, 1.0 / 6, 0.5)); }

Values sign(Node &node) {
  Emitter &emit = node.emit;
  Value x = node.input(0), zero = emit.scalarLike(x, 0), one = emit.scalarLike(x, 1), minusOne = emit.scalarLike(x, -1);
  return emit.where(emit.binary<GtOp>(x, zero), one, emit.where(emit.binary<LtOp>(x, zero), minusOne, x));
}

Values isInfinite(Node &node) {
  Emitter &emit = node.emit;
  bool positive = node.flag("detect_positive", true), negative = node.flag("detect_negative", true);
  Value x = node.input(0);
  if (positive && negative)
    return emit.binary<EqOp>(emit.unary<AbsOp>(x), emit.scalarLike(x, infinity));
  if (!positive && !negative)
    return emit.splat(0, DType::Bool, node.dims(0));
  return emit.binary<EqOp>(x, emit.scalarLike(x, positive ? infinity : -infinity));
}

Values mod(Node &node) {
  Emitter &emit = node.emit;
  Value a = node.input(0), b = node.input(1);
  if (!node.flag("fmod"))
    return emit.binary<ModOp>(a, b);
  // fmod takes the sign of the dividend: the remainder of the magnitudes, signed.
  Value remainder = emit.binary<ModOp>(emit.unary<AbsOp>(a), emit.unary<AbsOp>(b));
  return emit.where(emit.binary<LtOp>(a, emit.scalarLike(a, 0)), emit.unary<NegOp>(remainder), remainder);
}

Values power(Node &node) {
  Emitter &emit = node.emit;
  if (!isFloat(node.type(0)))
    return node.fail("the base is of an integer type; kfuse takes powers of floats");
  return emit.binary<PowOp>(node.input(0), emit.cast(node.input(1), node.type(0)));
}

Values castTo(Node &node, int elementType) {
  std::optional<DType> type = dtypeOfOnnx(elementType);
  if (!type)
    return node.fail("casts to " + nameOfOnnxType(elementType) +
                     "; kfuse keeps FLOAT, FLOAT16, BFLOAT16, INT32, INT64 and BOOL");
  return node.emit.cast(node.input(0), *type);
}

Values castOp(Node &node) { return castTo(node, static_cast<int>(node.integer("to", 0))); }

Values castLike(Node &node) { return node.emit.cast(node.input(0), node.type(1)); }

/// In inference the mask keeps everything.
Values dropout(Node &node) {
  Emitter &emit = node.emit;
  if (node.input(2) && Emitter::constantIntegers(node.input(2)) != Ints{0})
    return node.fail("training_mode is not the constant false");
  Value mask = node.outputCount() > 1 ? emit.splat(1, DType::Bool, node.dims(0)) : Value();
  return {node.input(0), mask};
}

/// com.microsoft: x * sigmoid(alpha x).
Values quickGelu(Node &node) {
  Value x = node.input(0);
  return node.emit.mul(x, node.emit.unary<SigmoidOp>(node.emit.mul(x, node.real("alpha", 1.702F))));
}

/// com.microsoft: an activation of x + bias.
template <class Op> Values biased(Node &node) {
  Value x = node.input(0);
  return node.emit.unary<Op>(node.input(1) ? node.emit.add(x, node.input(1)) : x);
}

/// (x - mean) / sqrt(variance + epsilon) * scale + bias, by channel: dimension 1.
Values batchNorm(Node &node) {
  Emitter &emit = node.emit;
  if (node.flag("training_mode"))
    return node.fail("training_mode is set");
  Ints channel(node.rank(0), 1);
  if (channel.size() < 2)
    return node.fail("its input of shape " + toString(node.dims(0)) + " has no channel dimension");
  channel[1] = node.dims(0)[1];
  auto perChannel = [&](unsigned i) { return emit.cast(emit.reshape(node.input(i), channel), node.type(0)); };
  Value deviation = emit.unary<SqrtOp>(emit.add(perChannel(4), node.real("epsilon", 1e-5)));
  Value scale = emit.div(perChannel(1), deviation);
  return emit.add(emit.mul(emit.sub(node.input(0), perChannel(3)), scale), perChannel(2));
}

constexpr OnnxOp table[] = {
    {"Abs", 1, 1, unary<AbsOp>},
    {"Add", 2, 2, binary<AddOp>},
    {"And", 2, 2, binary<AndOp>},
    {"BatchNormalization", 5, 5, batchNorm, "epsilon momentum training_mode"},
    {"Cast", 1, 1, castOp, "to saturate round_mode"},
    {"CastLike", 2, 2, castLike, "saturate round_mode"},
    {"Ceil", 1, 1, ceiling},
    {"Clip", 1, 3, clip},
    {"Cos", 1, 1, unary<CosOp>},
    {"Div", 2, 2, binary<DivOp>},
    {"Dropout", 1, 3, dropout, "seed"},
    {"Elu", 1, 1, elu, "alpha"},
    {"Equal", 2, 2, binary<EqOp>},
    {"Erf", 1, 1, unary<ErfOp>},
    {"Exp", 1, 1, unary<ExpOp>},
    {"Floor", 1, 1, unary<FloorOp>},
    {"Gelu", 1, 1, gelu, "approximate"},
    {"Greater", 2, 2, binary<GtOp>},
    {"GreaterOrEqual", 2, 2, binary<GeOp>},
    {"HardSigmoid", 1, 1, hardSigmoid, "alpha beta"},
    {"HardSwish", 1, 1, hardSwish},
    {"Identity", 1, 1, identity},
    {"IsInf", 1, 1, isInfinite, "detect_negative detect_positive"},
    {"IsNaN", 1, 1, unary<IsNanOp>},
    {"LeakyRelu", 1, 1, leakyRelu, "alpha"},
    {"Less", 2, 2, binary<LtOp>},
    {"LessOrEqual", 2, 2, binary<LeOp>},
    {"Log", 1, 1, unary<LogOp>},
    {"Max", 1, anyNumber, variadic<MaxOp>},
    {"Mean", 1, anyNumber, mean},
    {"Min", 1, anyNumber, variadic<MinOp>},
    {"Mish", 1, 1, mish},
    {"Mod", 2, 2, mod, "fmod"},
    {"Mul", 2, 2, binary<MulOp>},
    {"Neg", 1, 1, unary<NegOp>},
    {"Not", 1, 1, unary<NotOp>},
    {"Or", 2, 2, binary<OrOp>},
    {"PRelu", 2, 2, prelu},
    {"Pow", 2, 2, power},
    {"Reciprocal", 1, 1, unary<ReciprocalOp>},
    {"Relu", 1, 1, unary<ReluOp>},
    {"Sigmoid", 1, 1, unary<SigmoidOp>},
    {"Sign", 1, 1, sign},
    {"Sin", 1, 1, unary<SinOp>},
    {"Softplus", 1, 1, softplus},
    {"Softsign", 1, 1, softsign},
    {"Sqrt", 1, 1, unary<SqrtOp>},
    {"Sub", 2, 2, binary<SubOp>},
    {"Sum", 1, anyNumber, variadic<AddOp>},
    {"Tan", 1, 1, tangent},
    {"Tanh", 1, 1, unary<TanhOp>},
    {"Where", 3, 3, where},
    {"Xor", 2, 2, binary<NeOp>},
    {"com.microsoft.BiasGelu", 2, 2, biased<GeluOp>},
    {"com.microsoft.FastGelu", 1, 2, biased<GeluTanhOp>},
    {"com.microsoft.Gelu", 1, 1, unary<GeluOp>},
    {"com.microsoft.QuickGelu", 1, 1, quickGelu, "alpha"},
};

} // namespace

llvm::ArrayRef<OnnxOp> pointwiseOps() { return table; }

} // namespace kfuse::ir::onnx
