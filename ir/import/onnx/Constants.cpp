// Ops whose results are known when the model is read: constants, shapes and ranges.
#include "ir/import/onnx/Ops.h"

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
  std::optional<Ints> shape = node.constantIntegers(0, "shape");
  if (!shape)
    return Value();
  std::optional<HostTensor> value = node.tensor("value");
  if (!node.has("value"))
    return emit.splat(0, DType::F32, *shape);
  if (!value || value->size() != 1)
    return node.fail("value is not a tensor of one element");
  return emit.splat(*value, *shape);
}

Values shape(Node &node) {
  llvm::ArrayRef<int64_t> dims = node.dims(0);
  int64_t rank = dims.size();
  auto clamped = [&](int64_t index) { return std::clamp<int64_t>(index < 0 ? index + rank : index, 0, rank); };
  int64_t start = clamped(node.integer("start", 0)), end = clamped(node.integer("end", rank));
  return node.emit.integers(dims.slice(start, std::max<int64_t>(end - start, 0)));
}

Values size(Node &node) {
  Emitter &emit = node.emit;
  return emit.reshape(emit.integers(elementsIn(node.dims(0))), {});
}

/// start, start + delta, ... below limit.
Values range(Node &node) {
  Emitter &emit = node.emit;
  DType type = node.type(0);
  double bounds[3] = {};
  for (unsigned i = 0; i < 3; ++i) {
    std::optional<HostTensor> known = Emitter::constantOf(node.input(i));
    if (!known || known->size() != 1 || known->type != type)
      return node.fail("start, limit and delta must be scalars of one type, known when the model is read");
    bounds[i] = reference::toDoubles(*known)[0];
  }
  auto [start, limit, delta] = bounds;
  double count = std::max(std::ceil((limit - start) / delta), 0.0);
  if (!(count <= maxTensorBytes)) // NaN too.
    return node.fail("counts from " + std::to_string(start) + " to " + std::to_string(limit) + " by " +
                     std::to_string(delta));
  auto length = static_cast<int64_t>(count);
  if (length > maxFoldedElements) {
    Value steps = emit.cast(emit.iota(length, 0), type);
    return emit.add(emit.mul(steps, delta), start);
  }
  std::vector<double> values(length);
  for (int64_t i = 0; i < length; ++i)
    values[i] = start + static_cast<double>(i) * delta;
  return vectorOf(emit, type, values);
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

constexpr OnnxOp table[] = {
    {"Constant", 0, 0, constant,
     "value value_float value_floats value_int value_ints value_string value_strings sparse_value"},
    {"ConstantOfShape", 1, 1, constantOfShape, "value"},
    {"NonZero", 1, 1, nonZero},
    {"Range", 3, 3, range},
    {"Shape", 1, 1, shape, "start end"},
    {"Size", 1, 1, size},
};

} // namespace

llvm::ArrayRef<OnnxOp> constantOps() { return table; }

} // namespace kfuse::ir::onnx
