// Ops that read by index tensors or by position.
#include "ir/import/onnx/Ops.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// False, and failed, when an index that is known lies outside [-size, size).
bool areInside(Node &node, Value indices, int64_t size) {
  std::optional<Ints> known = Emitter::constantIntegers(indices);
  for (int64_t index : known.value_or(Ints()))
    if (index < -size || index >= size) {
      node.fail("index " + llvm::Twine(index) + " of a dimension of " + llvm::Twine(size));
      return false;
    }
  return true;
}

Values gather(Node &node) {
  Emitter &emit = node.emit;
  int64_t axis = node.normalised(node.integer("axis", 0), node.rank(0));
  if (node.failed() || !areInside(node, node.input(1), node.dims(0)[axis]))
    return Value();
  std::optional<Ints> index = node.rank(1) == 0 ? Emitter::constantIntegers(node.input(1)) : std::nullopt;
  if (!index)
    return emit.gather(node.input(0), node.input(1), axis);
  // One known index is a slice: an address, not a load.
  int64_t size = node.dims(0)[axis], offset = index->front() < 0 ? index->front() + size : index->front();
  Ints shape(node.dims(0));
  shape.erase(shape.begin() + axis);
  return emit.reshape(emit.slice(node.input(0), axis, offset, 1), shape);
}

/// The index of each element of a tensor of `shape` along `dim`, as a tensor that broadcasts to `shape`.
/// Known when `isKnown`, else computed where it is read.
Value positions(Emitter &emit, llvm::ArrayRef<int64_t> shape, size_t dim, DType type, bool isKnown) {
  Ints along(shape.size(), 1);
  along[dim] = shape[dim];
  if (!isKnown || shape[dim] > maxFoldedElements)
    return emit.iota(along, dim, type);
  return emit.cast(emit.reshape(emit.integers(counted(shape[dim])), along), type);
}

/// data[i][index[i][j]][k]: a gather in the flattened data, at index * stride plus the other positions'.
Values gatherElements(Node &node) {
  Emitter &emit = node.emit;
  Value indices = node.input(1);
  llvm::ArrayRef<int64_t> data = node.dims(0), shape = node.dims(1);
  int64_t axis = node.normalised(node.integer("axis", 0), data.size());
  if (node.failed() || shape.size() != data.size() || data.empty())
    return node.fail("indices of shape " + toString(shape) + " for data of shape " + toString(data));
  if (!areInside(node, indices, data[axis]))
    return Value();

  bool isKnown = Emitter::constantIntegers(indices).has_value();
  DType type = DType::I64;
  indices = emit.cast(indices, type);
  Value fromEnd = emit.add(indices, static_cast<double>(data[axis]));
  Value where = emit.where(emit.binary<LtOp>(indices, emit.scalarLike(indices, 0)), fromEnd, indices);
  int64_t stride = 1;
  Value flat;
  for (int64_t dim = data.size() - 1; dim >= 0; --dim) {
    if (dim != axis && shape[dim] > data[dim])
      return node.fail("indices of shape " + toString(shape) + " leave data of shape " + toString(data));
    if (dim == axis || shape[dim] > 1) {
      Value along = dim == axis ? where : positions(emit, shape, dim, type, isKnown);
      Value step = emit.mul(along, static_cast<double>(stride));
      flat = flat ? emit.add(flat, step) : step;
    }
    stride *= data[dim];
  }
  return emit.gather(emit.reshape(node.input(0), elementsIn(data)), flat, 0);
}

Value integer(Emitter &emit, int64_t value) { return emit.reshape(emit.integers(value), {}); }

/// True at or above (`upper`), or at or below, the diagonal `k` of a matrix, a scalar.
Value triangle(Emitter &emit, int64_t rows, int64_t columns, Value k, bool upper, bool isKnown) {
  Value row = positions(emit, {rows, columns}, 0, DType::I64, isKnown);
  const std::optional<Ints> diagonal = Emitter::constantIntegers(k);
  row = diagonal ? emit.add(row, static_cast<double>(diagonal->front())) : emit.add(row, k);
  Value column = positions(emit, {rows, columns}, 1, DType::I64, isKnown);
  return upper ? emit.binary<GeOp>(column, row) : emit.binary<LeOp>(column, row);
}

Values trilu(Node &node) {
  Emitter &emit = node.emit;
  Value k = integer(emit, 0);
  if (node.input(1)) {
    std::optional<Ints> given = node.sizeIntegers(1, "k");
    if (!given || given->size() != 1)
      return node.fail("k is not one integer");
    // Diagonals further out keep all or nothing anyway.
    k = Emitter::varies(node.input(1)) ? emit.reshape(emit.cast(node.input(1), DType::I64), {})
                                       : integer(emit, std::clamp(given->front(), -maxTensorBytes, maxTensorBytes));
  }
  if (node.rank(0) < 2)
    return node.fail("needs a matrix, got " + toString(node.dims(0)));
  llvm::ArrayRef<int64_t> dims = node.dims(0).take_back(2);
  Value kept = triangle(emit, dims[0], dims[1], k, node.flag("upper", true), /*isKnown=*/false);
  return emit.where(kept, node.input(0), emit.scalarLike(node.input(0), 0));
}

/// Sums over the elements up to each: n^2 work, which is cheap beside an attention of the same length.
Values cumSum(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Ints> given = node.constantIntegers(1, "axis");
  if (!given || given->size() != 1)
    return node.fail("axis is not one integer");
  int64_t axis = node.normalised(given->front(), node.rank(0));
  if (node.failed())
    return Value();
  // x [.., n, ..] -> [.., 1, n, ..], masked to [.., n, n, ..], summed over the second.
  Ints shape(node.dims(0)), maskShape(shape.size() + 1, 1);
  int64_t size = shape[axis];
  shape.insert(shape.begin() + axis, 1);
  maskShape[axis] = maskShape[axis + 1] = size;
  bool backwards = node.flag("reverse"), exclusive = node.flag("exclusive");
  int64_t k = exclusive ? (backwards ? 1 : -1) : 0;
  bool isKnown = Emitter::constantIntegers(node.input(0)).has_value();
  Value kept = triangle(emit, size, size, integer(emit, k), backwards, isKnown);
  Value x = emit.reshape(node.input(0), shape);
  Value sums = emit.reduce(emit.where(emit.reshape(kept, maskShape), x, emit.scalarLike(x, 0)), "sum", axis + 1);
  return emit.countingRows(sums);
}

constexpr OnnxOp table[] = {
    {"CumSum", 2, 2, cumSum, "exclusive reverse"},
    {"Gather", 2, 2, gather, "axis"},
    {"GatherElements", 2, 2, gatherElements, "axis"},
    {"Trilu", 1, 2, trilu, "upper"},
};

} // namespace

llvm::ArrayRef<OnnxOp> indexingOps() { return table; }

} // namespace kfuse::ir::onnx
