// Reductions, softmax and norms.
#include "ir/import/onnx/arithmetic/Ops.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Axes were an attribute before opset 13 (ReduceSum) or 18 (the others).
Value reduce(Node &node, llvm::StringRef function, Value x) {
  std::optional<Ints> axes = node.attributeOrInput("axes", 1);
  if (!axes || axes->empty()) {
    if (node.flag("noop_with_empty_axes"))
      return x;
    axes = counted(node.rank(0));
  }
  axes = node.normalised(*axes, node.rank(0));
  if (!axes)
    return {};
  return node.flag("keepdims", true) ? node.emit.reduceKeepingDims(x, function, *axes)
                                     : node.emit.reduce(x, function, *axes);
}

Values reduceSum(Node &node) { return reduce(node, "sum", node.input(0)); }
Values reduceMean(Node &node) { return reduce(node, "mean", node.input(0)); }

/// The largest or smallest. Booleans are compared as integers, which kernels reduce.
Values extreme(Node &node, llvm::StringRef function) {
  if (node.type(0) != DType::Bool)
    return reduce(node, function, node.input(0));
  return node.emit.cast(reduce(node, function, node.emit.cast(node.input(0), DType::I32)), DType::Bool);
}

Values reduceMax(Node &node) { return extreme(node, "max"); }
Values reduceMin(Node &node) { return extreme(node, "min"); }

Value squared(Node &node) { return node.emit.mul(node.input(0), node.input(0)); }
Values reduceSumSquare(Node &node) { return reduce(node, "sum", squared(node)); }
/// In f32: in f16 the sum of squares overflows where its root does not.
Values reduceL2(Node &node) {
  Emitter &emit = node.emit;
  DType type = node.type(0);
  Value x = isFloat(type) ? emit.cast(node.input(0), DType::F32) : node.input(0);
  return emit.cast(emit.unary<SqrtOp>(reduce(node, "sum", emit.mul(x, x))), type);
}
Values reduceL1(Node &node) { return reduce(node, "sum", node.emit.unary<AbsOp>(node.input(0))); }

/// In f32: in 16 bits sums of exponentials overflow, and those near 1 lose the digits of their logarithm.
Value asF32(Node &node) { return node.emit.cast(node.input(0), DType::F32); }
Values reduceLogSum(Node &node) {
  Emitter &emit = node.emit;
  return emit.cast(emit.unary<LogOp>(reduce(node, "sum", asF32(node))), node.type(0));
}
/// max + log(sum(exp(x - max))). A maximum that is infinite is not subtracted: infinity - infinity is not a number.
Values reduceLogSumExp(Node &node) {
  Emitter &emit = node.emit;
  Value x = asF32(node);
  std::optional<Ints> axes = node.attributeOrInput("axes", 1);
  if (!axes || axes->empty()) {
    if (node.flag("noop_with_empty_axes"))
      return node.input(0);
    axes = counted(node.rank(0));
  }
  axes = node.normalised(*axes, node.rank(0));
  if (!axes)
    return Value();
  Value most = emit.reduceKeepingDims(x, "max", *axes);
  Value isInfinite =
      emit.binary<EqOp>(emit.unary<AbsOp>(most), emit.scalarLike(most, std::numeric_limits<double>::infinity()));
  most = emit.where(isInfinite, emit.scalarLike(most, 0), most);
  Value sum = emit.reduceKeepingDims(emit.unary<ExpOp>(emit.sub(x, most)), "sum", *axes);
  Value result = emit.add(emit.unary<LogOp>(sum), most);
  if (result && !node.flag("keepdims", true)) {
    Ints shape;
    for (auto [axis, size] : llvm::enumerate(node.dims(0)))
      if (!llvm::is_contained(*axes, static_cast<int64_t>(axis)))
        shape.push_back(size);
    result = emit.reshape(result, shape);
  }
  return emit.cast(result, node.type(0));
}

/// x over its norm along an axis; 0 where that is 0.
Values lpNormalization(Node &node) {
  Emitter &emit = node.emit;
  int64_t axis = node.normalised(node.integer("axis", -1), node.rank(0)), p = node.integer("p", 2);
  if (node.failed() || (p != 1 && p != 2))
    return node.fail("the norm of p = " + llvm::Twine(p) + "; 1 or 2");
  Value x = asF32(node), powers = p == 1 ? emit.unary<AbsOp>(x) : emit.mul(x, x);
  Value norm = emit.reduceKeepingDims(powers, "sum", axis);
  if (p == 2)
    norm = emit.unary<SqrtOp>(norm);
  Value zero = emit.scalarLike(x, 0);
  return emit.cast(emit.where(emit.binary<EqOp>(norm, zero), zero, emit.div(x, norm)), node.type(0));
}

/// The product of a known shape's sizes, as exporters count elements.
Values reduceProd(Node &node) {
  std::optional<Ints> values = Emitter::constantIntegers(node.input(0));
  if (!values || node.rank(0) != 1 || node.type(0) == DType::Bool)
    return node.fail("multiplies a tensor that is no known vector of integers");
  Emitter &emit = node.emit;
  Value product = emit.splat(1, node.type(0));
  for (auto [i, value] : llvm::enumerate(*values))
    product = emit.mul(product, emit.reshape(emit.slice(node.input(0), 0, i, 1), {}));
  return node.flag("keepdims", true) ? emit.reshape(product, 1) : product;
}

/// The permutation that moves `axis` to the end. It is its own inverse: the two change places.
Ints lastSwappedWith(int64_t axis, int64_t rank) {
  Ints permutation = counted(rank);
  std::swap(permutation[axis], permutation.back());
  return permutation;
}

Values softmax(Node &node) {
  Emitter &emit = node.emit;
  int64_t axis = node.normalised(node.integer("axis", -1), node.rank(0));
  if (node.failed())
    return Value();
  Ints swap = lastSwappedWith(axis, node.rank(0));
  return emit.transpose(emit.unary<SoftmaxOp>(emit.transpose(node.input(0), swap)), swap);
}

/// x - max - log(sum(exp(x - max))): the logarithm of a softmax loses what the softmax rounds to 0. In f32: in 16
/// bits a sum near 1 is 1.
Values logSoftmax(Node &node) {
  Emitter &emit = node.emit;
  int64_t axis = node.normalised(node.integer("axis", -1), node.rank(0));
  if (node.failed())
    return Value();
  Value x = emit.cast(node.input(0), DType::F32);
  Value shifted = emit.sub(x, emit.reduceKeepingDims(x, "max", axis));
  Value sum = emit.reduceKeepingDims(emit.unary<ExpOp>(shifted), "sum", axis);
  return emit.cast(emit.sub(shifted, emit.unary<LogOp>(sum)), node.type(0));
}

/// `x` with its dimensions from `axis` on made one row.
Value asRows(Emitter &emit, Value x, int64_t axis) {
  if (!x)
    return x;
  Ints shape(dimsOf(x).take_front(axis));
  shape.push_back(elementsIn(dimsOf(x).drop_front(axis)));
  return emit.reshape(x, shape);
}

/// A weight or bias of the normalised dimensions, which it broadcasts to, as one row of x's type.
Value asRow(Emitter &emit, Value vector, llvm::ArrayRef<int64_t> normalised, DType type) {
  if (!vector)
    return vector;
  return emit.cast(emit.reshape(emit.broadcast(vector, normalised), elementsIn(normalised)), type);
}

enum class Norm { Layer, Rms };

Value normalise(Node &node, Norm norm, Value x, Value weight, Value bias, int64_t axis) {
  Emitter &emit = node.emit;
  if (!x)
    return x;
  Ints shape(dimsOf(x));
  llvm::ArrayRef<int64_t> normalised = llvm::ArrayRef(shape).drop_front(axis);
  Value rows = asRows(emit, x, axis);
  double epsilon = node.real("epsilon", 1e-5F);
  weight = asRow(emit, weight, normalised, dtypeOf(x.getType()));
  bias = asRow(emit, bias, normalised, dtypeOf(x.getType()));
  Value result =
      norm == Norm::Layer ? emit.layerNorm(rows, weight, bias, epsilon) : emit.rmsNorm(rows, weight, epsilon);
  return emit.reshape(result, shape);
}

/// LayerNormalization, RMSNormalization and SimplifiedLayerNormalization (ONNX Runtime's RMS norm). The
/// mean and deviation they may also give are for training.
template <Norm norm> Values normalisation(Node &node) {
  int64_t axis = node.normalised(node.integer("axis", -1), node.rank(0));
  if (node.failed())
    return Value();
  return normalise(node, norm, node.input(0), node.input(1), node.input(2), axis);
}

/// `x` [N, C, S...] normalised in `rows` rows, then scaled and moved channel by channel: `scale` and
/// `bias` are of [C], or of one number for each group of channels.
Value normaliseChannels(Node &node, int64_t rows, Value scale, Value bias) {
  Emitter &emit = node.emit;
  const Ints shape(node.dims(0));
  const int64_t channels = shape[1];
  Value x = emit.reshape(node.input(0), {rows, elementsIn(shape) / rows});
  x = emit.reshape(emit.layerNorm(x, {}, {}, node.real("epsilon", 1e-5F)), shape);
  for (auto [vector, isScale] : {std::pair(scale, true), std::pair(bias, false)}) {
    if (!vector || dimsOf(vector).size() != 1 || channels % dimsOf(vector)[0] != 0)
      return node.fail("scales " + llvm::Twine(channels) + " channels by a tensor of another size");
    const int64_t count = dimsOf(vector)[0];
    if (count != channels) // A number a group.
      vector = emit.reshape(emit.broadcast(emit.reshape(vector, {count, 1}), {count, channels / count}), channels);
    Ints across(shape.size() - 1, 1);
    across[0] = channels;
    vector = emit.cast(emit.reshape(vector, across), node.type(0));
    x = isScale ? emit.mul(x, vector) : emit.add(x, vector);
  }
  return x;
}

Values instanceNormalisation(Node &node) {
  if (node.rank(0) < 3 || elementsIn(node.dims(0)) == 0 || !isFloat(node.type(0)))
    return node.fail("normalises " + toString(node.dims(0)) + ", which should be floats [N, C, ...]");
  return normaliseChannels(node, node.dims(0)[0] * node.dims(0)[1], node.input(1), node.input(2));
}

/// Opset 18 gives scale and bias a group, opset 21 a channel.
Values groupNormalisation(Node &node) {
  const int64_t groups = node.integer("num_groups", 0);
  if (node.rank(0) < 2 || elementsIn(node.dims(0)) == 0 || !isFloat(node.type(0)))
    return node.fail("normalises " + toString(node.dims(0)) + ", which should be floats [N, C, ...]");
  if (groups < 1 || node.dims(0)[1] % groups != 0)
    return node.fail("normalises " + llvm::Twine(node.dims(0)[1]) + " channels in " + llvm::Twine(groups) + " groups");
  return normaliseChannels(node, node.dims(0)[0] * groups, node.input(1), node.input(2));
}

/// com.microsoft: a norm of input + skip (+ bias), with the sum as the fourth result.
Values skipNormalisation(Node &node, Norm norm, Value beta, Value bias) {
  Emitter &emit = node.emit;
  Value sum = emit.add(node.input(0), node.input(1));
  if (bias)
    sum = emit.add(sum, bias);
  if (!sum || dimsOf(sum).empty())
    return node.fail("adds scalars");
  return {normalise(node, norm, sum, node.input(2), beta, dimsOf(sum).size() - 1), Value(), Value(), sum};
}

constexpr OnnxOp table[] = {
    {"GroupNormalization", 3, 3, groupNormalisation, "epsilon num_groups stash_type"},
    {"InstanceNormalization", 3, 3, instanceNormalisation, "epsilon"},
    {"LayerNormalization", 2, 3, normalisation<Norm::Layer>, "axis epsilon stash_type"},
    {"LogSoftmax", 1, 1, logSoftmax, "axis"},
    {"LpNormalization", 1, 1, lpNormalization, "axis p"},
    {"RMSNormalization", 2, 2, normalisation<Norm::Rms>, "axis epsilon stash_type"},
    {"ReduceL1", 1, 2, reduceL1, "axes keepdims noop_with_empty_axes"},
    {"ReduceL2", 1, 2, reduceL2, "axes keepdims noop_with_empty_axes"},
    {"ReduceLogSum", 1, 2, reduceLogSum, "axes keepdims noop_with_empty_axes"},
    {"ReduceLogSumExp", 1, 2, reduceLogSumExp, "axes keepdims noop_with_empty_axes"},
    {"ReduceMax", 1, 2, reduceMax, "axes keepdims noop_with_empty_axes"},
    {"ReduceMean", 1, 2, reduceMean, "axes keepdims noop_with_empty_axes"},
    {"ReduceMin", 1, 2, reduceMin, "axes keepdims noop_with_empty_axes"},
    {"ReduceProd", 1, 2, reduceProd, "axes keepdims noop_with_empty_axes"},
    {"ReduceSum", 1, 2, reduceSum, "axes keepdims noop_with_empty_axes"},
    {"ReduceSumSquare", 1, 2, reduceSumSquare, "axes keepdims noop_with_empty_axes"},
    {"SimplifiedLayerNormalization", 2, 2, normalisation<Norm::Rms>, "axis epsilon stash_type"},
    {"Softmax", 1, 1, softmax, "axis"},
    {"com.microsoft.SimplifiedLayerNormalization", 2, 2, normalisation<Norm::Rms>, "axis epsilon stash_type"},
    {"com.microsoft.SkipLayerNormalization", 3, 5,
     [](Node &node) { return skipNormalisation(node, Norm::Layer, node.input(3), node.input(4)); }, "epsilon"},
    {"com.microsoft.SkipSimplifiedLayerNormalization", 3, 4,
     [](Node &node) { return skipNormalisation(node, Norm::Rms, Value(), node.input(3)); }, "epsilon"},
};

} // namespace

llvm::ArrayRef<OnnxOp> rowOps() { return table; }

} // namespace kfuse::ir::onnx
