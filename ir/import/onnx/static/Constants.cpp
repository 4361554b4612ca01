// Ops whose results are known when the model is read: constants, shapes and ranges.
#include "ir/import/onnx/static/Ops.h"

#include <array>
#include <cmath>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

using ::onnx::AttributeProto;

Value vectorOf(Emitter &emit, DType type, const std::vector<double> &values) {
  return emit.constant(reference::tensorOf(type, {static_cast<int64_t>(values.size())}, values));
}

Values constant(Node &node) {
  Emitter &emit = node.emit;
  if (std::optional<HostTensor> value = node.tensor("value"))
    return emit.constant(*value);
  if (node.has("value_float"))
    return emit.splat(node.real("value_float", 0), DType::F32);
  if (node.has("value_int"))
    return emit.reshape(emit.integers(node.integer("value_int", 0)), {});
  if (std::optional<Ints> values = node.integerList("value_ints"))
    return emit.integers(*values);
  if (const AttributeProto *values = node.find("value_floats"))
    return vectorOf(emit, DType::F32, {values->floats().begin(), values->floats().end()});
  return node.fail("holds strings, a sparse tensor, or nothing");
}

Values constantOfShape(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Ints> shape = node.sizeIntegers(0, "shape");
  if (!shape)
    return Value();
  std::optional<HostTensor> value = node.tensor("value");
  if (node.has("value") && (!value || value->size() != 1))
    return node.fail("value is not a tensor of one element");
  Value filled = node.has("value") ? emit.splat(*value, *shape) : emit.splat(0, DType::F32, *shape);
  return Emitter::varies(node.input(0)) ? emit.countingRows(filled) : filled;
}

Values shape(Node &node) {
  int64_t rank = node.rank(0);
  auto clamped = [&](int64_t index) { return std::clamp<int64_t>(index < 0 ? index + rank : index, 0, rank); };
  int64_t start = clamped(node.integer("start", 0)), end = clamped(node.integer("end", rank));
  return node.emit.sizes(node.input(0), start, end);
}

Values size(Node &node) {
  Emitter &emit = node.emit;
  Value count = emit.reshape(emit.integers(elementsIn(node.dims(0))), {});
  if (CachedPast *past = emit.cachedPast(); past && past->rowsOf(node.input(0)).any())
    past->setVarying(count, Value());
  return count;
}

/// Elements of start, start + delta, ... below limit.
double countOf(double start, double limit, double delta) { return std::max(std::ceil((limit - start) / delta), 0.0); }
/// The same of integers, whose difference may take 65 bits.
double countOf(int64_t start, int64_t limit, int64_t delta) {
  const __int128 distance = static_cast<__int128>(limit) - start, step = delta;
  if (step == 0 || distance == 0 || (distance < 0) != (step < 0))
    return step == 0 ? NAN : 0;
  const __int128 count = (distance + step - (step > 0 ? 1 : -1)) / step;
  return static_cast<double>(count);
}

bool endless(double count) { return !(count <= maxTensorBytes); } // NaN too.

/// What a Range of known scalars holds, in Numbers that are doubles or integers.
template <class Number>
Value range(Node &node, const std::array<Number, 3> &bounds, Value (*constant)(Node &, const std::vector<Number> &)) {
  Emitter &emit = node.emit;
  auto [start, limit, delta] = bounds;
  const double count = countOf(start, limit, delta);
  if (endless(count)) {
    node.fail("counts from " + std::to_string(start) + " to " + std::to_string(limit) + " by " + std::to_string(delta));
    return {};
  }
  auto length = static_cast<int64_t>(count);
  if (Emitter::varies(node.input(0))) // Each run has as many, from another on.
    return emit.add(emit.cast(emit.mul(emit.iota(length, 0), static_cast<double>(delta)), node.type(0)), node.input(0));
  if (Emitter::varies(node.input(1)) || length > maxFoldedElements) {
    Value steps = emit.cast(emit.iota(length, 0), node.type(0));
    if (delta != 1)
      steps = emit.mul(steps, node.input(2));
    steps = start == 0 ? steps : emit.add(steps, node.input(0));
    return Emitter::varies(node.input(1)) ? emit.countingRows(steps) : steps;
  }
  std::vector<Number> values(length);
  for (int64_t i = 0; i < length; ++i)
    values[i] = start + static_cast<Number>(i) * delta;
  return constant(node, values);
}

/// start, start + delta, ... below limit.
Values range(Node &node) {
  DType type = node.type(0);
  std::array<double, 3> reals{};
  std::array<int64_t, 3> integers{};
  for (unsigned i = 0; i < 3; ++i) {
    std::optional<HostTensor> known = i < 2 ? Emitter::sizesOf(node.input(i)) : Emitter::constantOf(node.input(i));
    if (!known || known->size() != 1 || known->type != type)
      return node.fail("start, limit and delta must be scalars of one type, known when the model is read");
    const reference::Number number = reference::toValues(*known).numbers[0];
    if (isFloat(type))
      reals[i] = number.real;
    else
      integers[i] = number.integer;
  }
  if (Emitter::varies(node.input(0)) && !Emitter::varies(node.input(1)))
    return node.fail(
        "counts from the length of a cache's past, in each run another, to a number that is always the same");
  if (isFloat(type))
    return range<double>(node, reals, [](Node &node, const std::vector<double> &values) {
      return vectorOf(node.emit, node.type(0), values);
    });
  return range<int64_t>(node, integers, [](Node &node, const std::vector<int64_t> &values) {
    return node.emit.cast(node.emit.integers(values), node.type(0));
  });
}

/// The indices of a known tensor's elements that are not 0: [rank, count]. Exporters count with it.
Values nonZero(Node &node) {
  std::optional<HostTensor> known = Emitter::constantOf(node.input(0));
  if (!known || known->size() > maxFoldedElements)
    return node.fail("its operand must be known when the model is read and of at most " +
                     llvm::Twine(maxFoldedElements) + " elements");
  std::vector<double> elements = reference::toDoubles(*known);
  int64_t rank = known->shape.size(), count = elements.size() - llvm::count(elements, 0.0);
  std::vector<double> indices(rank * count);
  int64_t column = 0;
  for (auto [offset, element] : llvm::enumerate(elements)) {
    if (element == 0)
      continue;
    int64_t rest = offset;
    for (int64_t dim = rank - 1; dim >= 0; rest /= known->shape[dim--])
      indices[dim * count + column] = rest % known->shape[dim];
    ++column;
  }
  return node.emit.constant(reference::tensorOf(DType::I64, {rank, count}, indices));
}

/// 1 on diagonal k of a matrix, else 0.
Values eyeLike(Node &node) {
  Emitter &emit = node.emit;
  int64_t rank = node.rank(0);
  std::optional<DType> type =
      node.has("dtype") ? dtypeOfOnnx(static_cast<int>(node.integer("dtype", 0))) : node.type(0);
  if (!type || rank < 1 || rank > 2)
    return node.fail("a matrix of a type that kfuse does not have, or of shape " + toString(node.dims(0)));
  int64_t rows = node.dims(0)[0], columns = node.dims(0)[rank - 1];
  int64_t k = std::clamp(node.integer("k", 0), -maxTensorBytes, maxTensorBytes);
  Value row = emit.add(emit.iota({rows, columns}, 0), static_cast<double>(k));
  return emit.cast(emit.binary<EqOp>(row, emit.iota({rows, columns}, 1)), *type);
}

constexpr OnnxOp table[] = {
    {"Constant", 0, 0, constant,
     "value value_float value_floats value_int value_ints value_string value_strings sparse_value"},
    {"ConstantOfShape", 1, 1, constantOfShape, "value"},
    {"EyeLike", 1, 1, eyeLike, "dtype k"},
    {"NonZero", 1, 1, nonZero},
    {"Range", 3, 3, range},
    {"Shape", 1, 1, shape, "start end"},
    {"Size", 1, 1, size},
};

} // namespace

llvm::ArrayRef<OnnxOp> constantOps() { return table; }

} // namespace kfuse::ir::onnx
