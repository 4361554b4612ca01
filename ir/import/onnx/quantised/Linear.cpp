// ONNX's own ops of quantised tensors: to them, from them, and products of integers.
#include "ir/import/onnx/quantised/Ops.h"
#include "ir/import/onnx/quantised/Transposed.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Which elements of a tensor share a scale, and the scales' shape in the tensor's own rank.
struct Blocks {
  Ints sizes, scales;
};

/// The blocks of scales as ONNX gives them: one in all, one an index along `axis`, or one for each `block_size` along
/// it.
std::optional<Blocks> blocksOf(Node &node, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> scales) {
  Blocks blocks{Ints(dims.size(), 0), Ints(dims.size(), 1)};
  if (elementsIn(scales) == 1 && scales.size() <= 1)
    return blocks;
  const int64_t axis = node.normalised(node.integer("axis", 1), static_cast<int64_t>(dims.size())),
                size = node.integer("block_size", 0);
  if (node.failed())
    return std::nullopt;
  if (size > 0 || scales.size() == dims.size()) {
    blocks.sizes.assign(dims.size(), 1);
    blocks.sizes[axis] = size > 0 ? size : 1;
    blocks.scales = Ints(dims);
    blocks.scales[axis] = static_cast<int64_t>(llvm::divideCeil(dims[axis], blocks.sizes[axis]));
  } else {
    blocks.sizes[axis] = 1;
    blocks.scales[axis] = dims[axis];
  }
  if (size < 0 || (scales != llvm::ArrayRef(blocks.scales) && (size > 0 || scales.size() != 1)) ||
      elementsIn(scales) != elementsIn(blocks.scales)) {
    node.fail("scales of shape " + toString(scales) + " for " + toString(dims) + " along axis " + llvm::Twine(axis) +
              " in blocks of " + llvm::Twine(size));
    return std::nullopt;
  }
  return blocks;
}

/// Scales, or zero points, as large as what they scale.
Value spread(Emitter &emit, Value scales, const Blocks &blocks, llvm::ArrayRef<int64_t> dims) {
  scales = emit.reshape(scales, blocks.scales);
  for (size_t dim = 0; scales && dim < dims.size(); ++dim) {
    if (blocks.sizes[dim] < 2 || blocks.scales[dim] == 1)
      continue;
    Ints apart(dimsOf(scales)), together(apart);
    apart.insert(apart.begin() + dim + 1, 1);
    scales = emit.reshape(scales, apart);
    apart[dim + 1] = blocks.sizes[dim];
    together[dim] *= blocks.sizes[dim];
    scales = emit.slice(emit.reshape(emit.broadcast(scales, apart), together), dim, 0, dims[dim]);
  }
  return scales;
}

/// An attribute that names a type, as ONNX numbers them; 0: `otherwise`.
std::optional<DType> typeAttribute(Node &node, llvm::StringRef name, DType otherwise) {
  const auto number = static_cast<int>(node.integer(name, 0));
  std::optional<DType> type = number == 0 ? otherwise : dtypeOfOnnx(number);
  if (!type)
    node.fail(name + " is " + nameOfOnnxType(number) + ", which kfuse does not have");
  return type;
}

/// Whether the weights [K, N] of products can be stored along K, where kernels read several at a time. Scales and zeros
/// that are matrices are turned with them.
bool isStoredAlongN(Node &node) {
  auto isTurned = [&](unsigned i) { return !node.input(i) || node.rank(i) < 2 || node.isConvertible(i); };
  return node.rank(0) == 2 && node.isRightFactor(0) && node.isConvertible(0) && isTurned(1) && isTurned(2);
}

/// Dequantised weights [K, N], stored as [N, K].
Value dequantisedAlongK(Node &node, Blocks blocks) {
  Emitter &emit = node.emit;
  std::swap(blocks.sizes[0], blocks.sizes[1]);
  std::swap(blocks.scales[0], blocks.scales[1]);
  auto turned = [&](unsigned i) {
    return node.rank(i) == 2 ? node.converted(i, "rows that were columns", transposed) : node.input(i);
  };
  const Value q = turned(0), scales = emit.reshape(turned(1), blocks.scales),
              zeros = node.input(2) ? emit.reshape(turned(2), blocks.scales) : Value();
  return emit.transpose(emit.dequantize(q, scales, zeros, blocks.sizes), {1, 0});
}

Values dequantizeLinear(Node &node) {
  Emitter &emit = node.emit;
  Value x = node.input(0), zero = node.input(2);
  std::optional<Blocks> blocks = blocksOf(node, node.dims(0), node.dims(1));
  std::optional<DType> result = typeAttribute(node, "output_dtype", node.type(1));
  if (!blocks || !result)
    return Value();
  if (smallInteger(node.type(0)) && isStoredAlongN(node))
    return emit.cast(dequantisedAlongK(node, *blocks), *result);
  if (smallInteger(node.type(0)))
    return emit.cast(emit.dequantize(x, emit.reshape(node.input(1), blocks->scales),
                                     zero ? emit.reshape(zero, blocks->scales) : Value(), blocks->sizes),
                     *result);
  x = emit.cast(x, DType::F32); // I32 of a bias, or an 8-bit float.
  if (zero)
    x = emit.sub(x, spread(emit, emit.cast(zero, DType::F32), *blocks, node.dims(0)));
  return emit.cast(emit.mul(x, spread(emit, emit.cast(node.input(1), DType::F32), *blocks, node.dims(0))), *result);
}

/// round(x / scale) + zero, saturated. Steps that do not saturate are at most 255, which bf16 holds, too.
Value quantised(Emitter &emit, Value x, Value scale, Value zero, DType type) {
  Value steps = emit.unary<RoundOp>(emit.div(x, scale));
  return emit.cast(zero ? emit.add(steps, zero) : steps, type);
}

Values quantizeLinear(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Blocks> blocks = blocksOf(node, node.dims(0), node.dims(1));
  std::optional<DType> type = typeAttribute(node, "output_dtype", node.input(2) ? node.type(2) : DType::U8),
                       exact = typeAttribute(node, "precision", node.type(1));
  if (!blocks || !type || !exact)
    return Value();
  if (*type != DType::I8 && *type != DType::U8)
    return node.fail("makes " + std::string(kfuse::toString(*type)) + "; activations are quantised to INT8 or UINT8");
  if (!isFloat(*exact) || byteWidth(*exact) < 2)
    return node.fail("divides in " + std::string(kfuse::toString(*exact)) + "; FLOAT, FLOAT16 or BFLOAT16");
  auto spreadExact = [&](unsigned i) { return spread(emit, emit.cast(node.input(i), *exact), *blocks, node.dims(0)); };
  return quantised(emit, emit.cast(node.input(0), *exact), spreadExact(1), node.input(2) ? spreadExact(2) : Value(),
                   *type);
}

/// To UINT8 over the range of all of x and 0; its scale and its zero point.
Values dynamicQuantizeLinear(Node &node) {
  Emitter &emit = node.emit;
  Value x = node.input(0);
  const Ints all = counted(node.rank(0));
  Value high = emit.reduce(x, "max", all), low = emit.reduce(x, "min", all);
  high = emit.binary<MaxOp>(high, emit.scalarLike(high, 0));
  low = emit.binary<MinOp>(low, emit.scalarLike(low, 0));
  Value scale = emit.mul(emit.sub(high, low), emit.scalarLike(low, 1 / 255.0));
  scale = emit.where(emit.binary<EqOp>(scale, emit.scalarLike(scale, 0)), emit.scalarLike(scale, 1), scale);
  Value zero = quantised(emit, emit.unary<NegOp>(low), scale, Value(), DType::U8);
  return {quantised(emit, x, scale, emit.cast(zero, DType::F32), DType::U8), scale, zero};
}

/// x less its zero point, in f32: one in all, or one a row (of a right factor, a column).
Value centred(Node &node, unsigned i, Value zero, bool isRight) {
  Emitter &emit = node.emit;
  Value x = emit.cast(node.input(i), DType::F32);
  if (!zero)
    return x;
  zero = emit.cast(zero, DType::F32);
  if (dimsOf(zero).size() == 1 && dimsOf(zero)[0] > 1 && !isRight)
    zero = emit.reshape(zero, {dimsOf(zero)[0], 1});
  return emit.sub(x, zero);
}

/// Products of 9 bits in f32, which adds so many of them exactly; sums of these as integers.
Value exactProduct(Emitter &emit, Value a, Value b) {
  constexpr int64_t exact = 256;
  if (!a || !b)
    return {};
  if (dimsOf(a).size() < 2 || dimsOf(b).size() < 2 || dimsOf(a).back() != dimsOf(b).end()[-2])
    return emit.fail("multiplies " + toString(dimsOf(a)) + " and " + toString(dimsOf(b)));
  const int64_t k = dimsOf(a).back(), axisA = dimsOf(a).size() - 1, axisB = dimsOf(b).size() - 2;
  Value sum;
  for (int64_t start = 0; start < k; start += exact) {
    const int64_t size = std::min(exact, k - start);
    Value part =
        emit.cast(emit.matmul(emit.slice(a, axisA, start, size), emit.slice(b, axisB, start, size)), DType::I32);
    sum = sum ? emit.add(sum, part) : part;
  }
  return sum;
}

Values matMulInteger(Node &node) {
  return exactProduct(node.emit, centred(node, 0, node.input(2), false), centred(node, 1, node.input(3), true));
}

constexpr OnnxOp table[] = {
    {"DequantizeLinear", 2, 3, dequantizeLinear, "axis block_size output_dtype"},
    {"DynamicQuantizeLinear", 1, 1, dynamicQuantizeLinear},
    {"MatMulInteger", 2, 4, matMulInteger},
    {"QuantizeLinear", 2, 3, quantizeLinear, "axis block_size output_dtype precision saturate"},
    {"com.microsoft.DequantizeLinear", 2, 3, dequantizeLinear, "axis block_size"},
    {"com.microsoft.QuantizeLinear", 2, 3, quantizeLinear, "axis block_size"},
};

} // namespace

llvm::ArrayRef<OnnxOp> linearQuantisedOps() { return table; }

} // namespace kfuse::ir::onnx
