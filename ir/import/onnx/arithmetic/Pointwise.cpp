// Elementwise ops. What the dialect lacks is composed of what it has.
#include "ir/import/onnx/arithmetic/Ops.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

using ::onnx::TensorProto;

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Op> Values unary(Node &node) { return node.emit.unary<Op>(node.input(0)); }
template <class Op> Values binary(Node &node) { return node.emit.binary<Op>(node.input(0), node.input(1)); }

template <class Op> Values variadic(Node &node) {
  Value result = node.input(0);
  for (Value next : node.allInputs().drop_front())
    result = node.emit.binary<Op>(result, next);
  return result;
}

/// In f32: in f16 the sum overflows where the mean does not.
Values mean(Node &node) {
  Emitter &emit = node.emit;
  Value sum = emit.cast(node.input(0), DType::F32);
  for (Value next : node.allInputs().drop_front())
    sum = emit.add(sum, emit.cast(next, DType::F32));
  return emit.cast(emit.div(sum, emit.scalarLike(sum, static_cast<double>(node.inputCount()))), node.type(0));
}

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

/// `activation(node, x)` of the operand in f32. 16 bits do not hold constants such as 1/6 or 0.01, which would move an
/// activation's zeros.
template <auto activation> Values inF32(Node &node) {
  Value x = node.input(0);
  DType type = node.type(0);
  return node.emit.cast(activation(node, isFloat(type) ? node.emit.cast(x, DType::F32) : x), type);
}

/// max(x, 0) + log(1 + e^-|x|): e^x alone overflows.
Value softplus(Node &node, Value x) {
  Emitter &emit = node.emit;
  Value tail = emit.unary<ExpOp>(emit.unary<NegOp>(emit.unary<AbsOp>(x)));
  return emit.add(emit.unary<ReluOp>(x), emit.unary<Log1pOp>(tail));
}

Value mish(Node &node, Value x) { return node.emit.mul(x, node.emit.unary<TanhOp>(softplus(node, x))); }

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

Value elu(Node &node, Value x) {
  return whenPositive(node, x, node.emit.mul(node.emit.unary<Expm1Op>(x), node.real("alpha", 1)));
}

Value celu(Node &node, Value x) {
  Emitter &emit = node.emit;
  double alpha = node.real("alpha", 1);
  Value scaled = emit.div(x, emit.scalarLike(x, alpha));
  return whenPositive(node, x, emit.mul(emit.unary<Expm1Op>(scaled), alpha));
}

/// gamma times x, or times alpha (e^x - 1).
Value selu(Node &node, Value x) {
  Emitter &emit = node.emit;
  Value negative = emit.mul(emit.unary<Expm1Op>(x), node.real("alpha", 1.67326319217681884765625));
  return emit.mul(whenPositive(node, x, negative), node.real("gamma", 1.05070102214813232421875));
}

Value thresholdedRelu(Node &node, Value x) {
  Emitter &emit = node.emit;
  return emit.where(emit.binary<GtOp>(x, emit.scalarLike(x, node.real("alpha", 1))), x, emit.scalarLike(x, 0));
}

/// 0 where |x| is at most lambd, else x moved towards 0 by the bias.
Values shrink(Node &node) {
  Emitter &emit = node.emit;
  if (!isFloat(node.type(0)))
    return node.fail("its operand is of an integer type");
  double bound = node.real("lambd", 0.5), bias = node.real("bias", 0);
  Value x = emit.cast(node.input(0), DType::F32);
  Value upper = emit.where(emit.binary<GtOp>(x, emit.scalarLike(x, bound)), emit.add(x, -bias), emit.scalarLike(x, 0));
  Value lower = emit.binary<LtOp>(x, emit.scalarLike(x, -bound));
  return emit.cast(emit.where(lower, emit.add(x, bias), upper), node.type(0));
}

Value swish(Node &node, Value x) {
  return node.emit.mul(x, node.emit.unary<SigmoidOp>(node.emit.mul(x, node.real("alpha", 1))));
}

Value leakyRelu(Node &node, Value x) { return whenPositive(node, x, node.emit.mul(x, node.real("alpha", 0.01))); }

Values prelu(Node &node) { return whenPositive(node, node.input(0), node.emit.mul(node.input(0), node.input(1))); }

/// alpha x + beta, kept within 0 and 1.
Value hardSigmoid(Node &node, Value x) {
  Emitter &emit = node.emit;
  Value ramp = emit.add(emit.mul(x, node.real("alpha", 0.2F)), node.real("beta", 0.5));
  return clamp(node, ramp, emit.scalarLike(x, 0), emit.scalarLike(x, 1));
}
/// x times (x + 3) / 6, kept within 0 and 1. x / 6 + 1/2 would not be 0 at -3, nor precise near it.
Value hardSwish(Node &node, Value x) {
  Emitter &emit = node.emit;
  Value ramp = clamp(node, emit.add(x, 3.0), emit.scalarLike(x, 0), emit.scalarLike(x, 6));
  return emit.mul(x, emit.div(ramp, emit.scalarLike(x, 6)));
}

/// 0 of -0, as PyTorch has it; NaN of NaN.
Values sign(Node &node) {
  Emitter &emit = node.emit;
  Value x = node.input(0), zero = emit.scalarLike(x, 0), one = emit.scalarLike(x, 1), minusOne = emit.scalarLike(x, -1);
  Value rest = emit.unary<AbsOp>(x);
  return emit.where(emit.binary<GtOp>(x, zero), one, emit.where(emit.binary<LtOp>(x, zero), minusOne, rest));
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
  return node.flag("fmod") ? emit.binary<RemOp>(a, b) : emit.binary<ModOp>(a, b);
}

/// A power of integers is a product of squares, for an exponent that is known.
Values integerPower(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Ints> exponents = Emitter::constantIntegers(node.input(1));
  if (!exponents || exponents->empty() || !llvm::all_equal(*exponents) || exponents->front() < 0)
    return node.fail("the base is of an integer type; kfuse takes powers of floats, and of integers those whose "
                     "exponent is one integer from 0 on, known when the model is read");
  Ints shape;
  if (!detail::broadcastShapes(node.dims(0), node.dims(1), shape))
    return node.fail("cannot broadcast " + toString(node.dims(0)) + " with " + toString(node.dims(1)));
  Value square = node.input(0), result = emit.scalarLike(square, 1);
  for (auto bits = static_cast<uint64_t>(exponents->front()); bits != 0; bits >>= 1) {
    if (bits & 1)
      result = emit.mul(square, result);
    if (bits > 1)
      square = emit.mul(square, square);
  }
  return emit.broadcast(result, shape);
}

Values power(Node &node) {
  Emitter &emit = node.emit;
  if (!isFloat(node.type(0)))
    return integerPower(node);
  return emit.binary<PowOp>(node.input(0), emit.cast(node.input(1), node.type(0)));
}

/// Integers of 8 and 16 bits, which kfuse keeps in I32: there they have their values, and wrap where they are made.
struct NarrowInteger {
  int type, bits;
  bool isSigned;
};
constexpr NarrowInteger narrowIntegers[] = {{TensorProto::UINT8, 8, false},
                                            {TensorProto::INT8, 8, true},
                                            {TensorProto::UINT16, 16, false},
                                            {TensorProto::INT16, 16, true}};

/// The number of `narrow` that is x modulo 2^bits.
Value wrapped(Emitter &emit, Value x, const NarrowInteger &narrow) {
  const double count = std::exp2(narrow.bits), half = narrow.isSigned ? count / 2 : 0;
  Value wide = emit.add(emit.cast(x, DType::I32), half);
  return emit.add(emit.binary<ModOp>(wide, emit.scalarLike(wide, count)), -half);
}

Values castTo(Node &node, int elementType) {
  std::optional<DType> type = dtypeOfOnnx(elementType);
  const auto *narrow = llvm::find_if(narrowIntegers, [&](const NarrowInteger &row) { return row.type == elementType; });
  if (narrow != std::end(narrowIntegers) && node.isOnlyMoved(0))
    return wrapped(node.emit, node.input(0), *narrow);
  if (!type || isPacked(*type))
    return node.fail("casts to " + nameOfOnnxType(elementType) +
                     "; kfuse makes FLOAT, FLOAT16, BFLOAT16, INT32, INT64, INT8, UINT8 and BOOL, and INT16 and UINT16 "
                     "that are only moved, compared and cast to other types");
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
Value quickGelu(Node &node, Value x) {
  return node.emit.mul(x, node.emit.unary<SigmoidOp>(node.emit.mul(x, node.real("alpha", 1.702F))));
}

/// com.microsoft: an activation of x + bias.
template <class Op> Values biased(Node &node) {
  Value x = node.input(0);
  return node.emit.unary<Op>(node.input(1) ? node.emit.add(x, node.input(1)) : x);
}

/// (x - mean) / sqrt(variance + epsilon) * scale + bias, by channel: dimension 1. In f32: in f16, scales and
/// differences lose digits, and overflow, where the result does not.
Values batchNorm(Node &node) {
  Emitter &emit = node.emit;
  Ints channel(node.rank(0), 1);
  if (channel.size() < 2)
    return node.fail("its input of shape " + toString(node.dims(0)) + " has no channel dimension");
  channel[1] = node.dims(0)[1];
  auto perChannel = [&](unsigned i) { return emit.cast(emit.reshape(node.input(i), channel), DType::F32); };
  Value x = emit.cast(node.input(0), DType::F32), mean = perChannel(3), variance = perChannel(4);
  Values results = Value();
  if (node.flag("training_mode")) { // Those of the batch itself, as weights are standardised (BiT, NFNet).
    Ints others = counted(node.rank(0));
    others.erase(others.begin() + 1);
    auto meanOf = [&](Value x) -> Value {
      return emit.mul(emit.reduceKeepingDims(x, "sum", others),
                      static_cast<double>(node.dims(0)[1]) / static_cast<double>(elementsIn(node.dims(0))));
    };
    Value ownMean = meanOf(x), centred = emit.sub(x, ownMean), ownVariance = meanOf(emit.mul(centred, centred));
    const double momentum = node.real("momentum", 0.9F);
    auto running = [&](Value former, Value own, unsigned i) -> Value {
      Value next = emit.add(emit.mul(former, momentum), emit.mul(own, 1 - momentum));
      return next ? emit.cast(emit.reshape(next, channel[1]), node.type(i)) : next;
    };
    results.push_back(running(mean, ownMean, 3));
    results.push_back(running(variance, ownVariance, 4));
    mean = ownMean, variance = ownVariance;
  }
  Value scale = emit.div(perChannel(1), emit.unary<SqrtOp>(emit.add(variance, node.real("epsilon", 1e-5))));
  results[0] = emit.cast(emit.add(emit.mul(emit.sub(x, mean), scale), perChannel(2)), node.type(0));
  return results;
}

/// Integers bit by bit. What they share and what they do not is their sum once and twice.
Values bitwiseXor(Node &node) {
  Emitter &emit = node.emit;
  return emit.sub(binary<OrOp>(node).front(), binary<AndOp>(node).front());
}

/// -1 - x.
Values bitwiseNot(Node &node) { return node.emit.sub(node.emit.scalarLike(node.input(0), -1), node.input(0)); }

/// Computes integers of one type; booleans have ops of their own.
template <auto compute> Values onIntegers(Node &node) {
  for (unsigned i = 0; i < node.inputCount(); ++i)
    if (isFloat(node.type(i)) || node.type(i) == DType::Bool)
      return node.fail("its operands are of no integer type");
  return compute(node);
}

constexpr OnnxOp table[] = {
    {"Abs", 1, 1, unary<AbsOp>},
    {"Add", 2, 2, binary<AddOp>},
    {"And", 2, 2, binary<AndOp>},
    {"BatchNormalization", 5, 5, batchNorm, "epsilon momentum training_mode"},
    {"BitwiseAnd", 2, 2, onIntegers<binary<AndOp>>},
    {"BitwiseNot", 1, 1, onIntegers<bitwiseNot>},
    {"BitwiseOr", 2, 2, onIntegers<binary<OrOp>>},
    {"BitwiseXor", 2, 2, onIntegers<bitwiseXor>},
    {"Cast", 1, 1, castOp, "to saturate round_mode"},
    {"CastLike", 2, 2, castLike, "saturate round_mode"},
    {"Ceil", 1, 1, ceiling},
    {"Celu", 1, 1, inF32<celu>, "alpha"},
    {"Clip", 1, 3, clip},
    {"Cos", 1, 1, unary<CosOp>},
    {"Div", 2, 2, binary<DivOp>},
    {"Dropout", 1, 3, dropout, "seed"},
    {"Elu", 1, 1, inF32<elu>, "alpha"},
    {"Equal", 2, 2, binary<EqOp>},
    {"Erf", 1, 1, unary<ErfOp>},
    {"Exp", 1, 1, unary<ExpOp>},
    {"Floor", 1, 1, unary<FloorOp>},
    {"Gelu", 1, 1, gelu, "approximate"},
    {"Greater", 2, 2, binary<GtOp>},
    {"GreaterOrEqual", 2, 2, binary<GeOp>},
    {"HardSigmoid", 1, 1, inF32<hardSigmoid>, "alpha beta"},
    {"HardSwish", 1, 1, inF32<hardSwish>},
    {"Identity", 1, 1, identity},
    {"IsInf", 1, 1, isInfinite, "detect_negative detect_positive"},
    {"IsNaN", 1, 1, unary<IsNanOp>},
    {"LeakyRelu", 1, 1, inF32<leakyRelu>, "alpha"},
    {"Less", 2, 2, binary<LtOp>},
    {"LessOrEqual", 2, 2, binary<LeOp>},
    {"Log", 1, 1, unary<LogOp>},
    {"Max", 1, anyNumber, variadic<MaxOp>},
    {"Mean", 1, anyNumber, mean},
    {"Min", 1, anyNumber, variadic<MinOp>},
    {"Mish", 1, 1, inF32<mish>},
    {"Mod", 2, 2, mod, "fmod"},
    {"Mul", 2, 2, binary<MulOp>},
    {"Neg", 1, 1, unary<NegOp>},
    {"Not", 1, 1, unary<NotOp>},
    {"Or", 2, 2, binary<OrOp>},
    {"PRelu", 2, 2, prelu},
    {"Pow", 2, 2, power},
    {"Reciprocal", 1, 1, unary<ReciprocalOp>},
    {"Relu", 1, 1, unary<ReluOp>},
    {"Round", 1, 1, unary<RoundOp>},
    {"Selu", 1, 1, inF32<selu>, "alpha gamma"},
    {"Shrink", 1, 1, shrink, "bias lambd"},
    {"Sigmoid", 1, 1, unary<SigmoidOp>},
    {"Sign", 1, 1, sign},
    {"Sin", 1, 1, unary<SinOp>},
    {"Softplus", 1, 1, inF32<softplus>},
    {"Softsign", 1, 1, softsign},
    {"Sqrt", 1, 1, unary<SqrtOp>},
    {"Sub", 2, 2, binary<SubOp>},
    {"Sum", 1, anyNumber, variadic<AddOp>},
    {"Swish", 1, 1, inF32<swish>, "alpha"},
    {"Tan", 1, 1, tangent},
    {"Tanh", 1, 1, unary<TanhOp>},
    {"ThresholdedRelu", 1, 1, inF32<thresholdedRelu>, "alpha"},
    {"Where", 3, 3, where},
    {"Xor", 2, 2, binary<NeOp>},
    {"com.microsoft.BiasGelu", 2, 2, biased<GeluOp>},
    {"com.microsoft.FastGelu", 1, 2, biased<GeluTanhOp>},
    {"com.microsoft.Gelu", 1, 1, unary<GeluOp>},
    {"com.microsoft.QuickGelu", 1, 1, inF32<quickGelu>, "alpha"},
};

} // namespace

llvm::ArrayRef<OnnxOp> pointwiseOps() { return table; }

} // namespace kfuse::ir::onnx
