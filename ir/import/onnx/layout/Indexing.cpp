// Ops that read by index tensors or by position.
#include "ir/import/onnx/layout/Coordinates.h"
#include "ir/import/onnx/layout/Ops.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

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

/// data[index[i][j]][j], along `axis`.
Values gatherElements(Node &node) {
  Value indices = node.input(1);
  llvm::ArrayRef<int64_t> data = node.dims(0), box = node.dims(1);
  int64_t axis = node.normalised(node.integer("axis", 0), data.size());
  if (node.failed() || box.size() != data.size())
    return node.fail("indices of shape " + toString(box) + " for data of shape " + toString(data));
  bool isKnown = Emitter::constantIntegers(indices).has_value();
  llvm::SmallVector<Coordinate> coordinates;
  for (size_t dim = 0; dim < data.size(); ++dim) {
    bool isAxis = static_cast<int64_t>(dim) == axis;
    if (!isAxis && box[dim] > data[dim])
      return node.fail("indices of shape " + toString(box) + " leave data of shape " + toString(data));
    std::optional<Coordinate> coordinate =
        isAxis ? coordinateOf(node, indices, data[dim]) : positionAlong(node.emit, box, dim, data[dim], isKnown);
    if (!coordinate)
      return Value();
    coordinates.push_back(*coordinate);
  }
  return gatherAt(node.emit, node.input(0), coordinates, box);
}

/// data[index[i][0]][index[i][1]]: the indices' last dimension holds coordinates, behind `batch_dims` that both share.
Values gatherNd(Node &node) {
  Value indices = node.input(1);
  llvm::ArrayRef<int64_t> data = node.dims(0), shape = node.dims(1);
  int64_t batch = node.integer("batch_dims", 0), rank = data.size(), depth = shape.empty() ? 0 : shape.back();
  if (node.failed() || depth < 1 || batch < 0 || batch >= static_cast<int64_t>(shape.size()) || depth > rank - batch)
    return node.fail("indices of shape " + toString(shape) + " for data of shape " + toString(data) + " behind " +
                     llvm::Twine(batch) + " batch dimensions; the last of them may be 1 to " +
                     llvm::Twine(std::max<int64_t>(rank - batch, 0)));
  if (shape.take_front(batch) != data.take_front(batch))
    return node.fail("indices of shape " + toString(shape) + " and data of shape " + toString(data) +
                     " differ in the " + llvm::Twine(batch) + " batch dimensions");
  llvm::ArrayRef<int64_t> box = shape.drop_back();
  llvm::SmallVector<Coordinate> coordinates;
  for (int64_t dim = 0; dim < batch; ++dim)
    coordinates.push_back(
        positionAlong(node.emit, box, dim, data[dim], Emitter::constantIntegers(indices).has_value()));
  auto given = coordinatesIn(node, indices, data.slice(batch, depth));
  if (!given || node.failed())
    return Value();
  llvm::append_range(coordinates, *given);
  return gatherAt(node.emit, node.input(0), coordinates, box);
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
    {"GatherND", 2, 2, gatherNd, "batch_dims"},
    {"Trilu", 1, 2, trilu, "upper"},
};

} // namespace

llvm::ArrayRef<OnnxOp> indexingOps() { return table; }

} // namespace kfuse::ir::onnx
