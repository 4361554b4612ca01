#include "ir/import/onnx/layout/Coordinates.h"

#include "llvm/ADT/STLExtras.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Constants of more elements are indices like any others: what is found out about them is not worth the time.
constexpr int64_t maxStudiedElements = int64_t{1} << 24;
/// Ops that are looked through on the way to what made an index.
constexpr int maxDepth = 32;

Ints ones(size_t rank) { return Ints(rank, 1); }

/// A constant's integers, once where all are the same.
struct KnownIntegers {
  Ints shape;
  std::vector<int64_t> values;

  /// Whether they are the same along `dim`.
  bool isSameAlong(size_t dim) const {
    int64_t inner = elementsIn(llvm::ArrayRef(shape).drop_front(dim + 1)), period = inner * shape[dim];
    for (int64_t i = 0, count = values.size(); i < count; ++i)
      if (values[i] != values[i - i % period + i % inner])
        return false;
    return true;
  }

  /// Keeps the first of `dim`.
  void dropAlong(size_t dim) {
    int64_t inner = elementsIn(llvm::ArrayRef(shape).drop_front(dim + 1)), period = inner * shape[dim];
    std::vector<int64_t> kept;
    for (int64_t i = 0, count = values.size(); i < count; i += period)
      kept.insert(kept.end(), values.begin() + i, values.begin() + i + inner);
    values = std::move(kept);
    shape[dim] = 1;
  }
};

std::optional<KnownIntegers> knownIntegers(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? mlir::dyn_cast<mlir::DenseIntElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || elements.getNumElements() == 0 ||
      (!elements.isSplat() && elements.getNumElements() > maxStudiedElements))
    return std::nullopt;
  if (elements.isSplat())
    return KnownIntegers{ones(dimsOf(value).size()), {elements.getSplatValue<mlir::APInt>().getSExtValue()}};
  KnownIntegers known{Ints(dimsOf(value)), {}};
  known.values.reserve(elements.getNumElements());
  for (const mlir::APInt &element : elements.getValues<mlir::APInt>())
    known.values.push_back(element.getSExtValue());
  for (size_t dim = 0; dim < known.shape.size(); ++dim)
    if (known.shape[dim] > 1 && known.isSameAlong(dim))
      known.dropAlong(dim);
  return known;
}

/// The line that known integers are on, if they are.
std::optional<Line> lineThrough(const KnownIntegers &known) {
  if (known.values.size() == 1)
    return Line{-1, known.values.front(), 0};
  auto longer = llvm::find_if(known.shape, [](int64_t size) { return size > 1; });
  if (*longer != static_cast<int64_t>(known.values.size()))
    return std::nullopt;
  int64_t step = known.values[1] - known.values[0];
  for (size_t i = 1; i < known.values.size(); ++i)
    if (known.values[i] - known.values[i - 1] != step)
      return std::nullopt;
  return Line{longer - known.shape.begin(), known.values.front(), step};
}

/// The sizes that are not 1, with their dimensions.
llvm::SmallVector<std::pair<size_t, int64_t>> sizesAboveOne(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<std::pair<size_t, int64_t>> found;
  for (auto [dim, size] : llvm::enumerate(shape))
    if (size != 1)
      found.emplace_back(dim, size);
  return found;
}

Value narrowed(Emitter &emit, Value x, int depth = 0);

/// A reshape of what was reshaped before.
Value reshaped(Emitter &emit, Value x, llvm::ArrayRef<int64_t> shape) {
  while (auto reshape = x ? x.getDefiningOp<ReshapeOp>() : ReshapeOp())
    x = reshape.getOperand();
  return emit.reshape(x, shape);
}

/// Narrows a reshape that only adds and drops dimensions of 1.
Value narrowedReshape(Emitter &emit, ReshapeOp op, int depth) {
  auto from = sizesAboveOne(dimsOf(op.getOperand())), to = sizesAboveOne(op.getType().getShape());
  if (!llvm::equal(llvm::make_second_range(from), llvm::make_second_range(to)))
    return op;
  Value narrow = narrowed(emit, op.getOperand(), depth + 1);
  if (!narrow)
    return {};
  Ints shape = ones(op.getType().getRank());
  for (auto [source, target] : llvm::zip_equal(from, to))
    shape[target.first] = dimsOf(narrow)[source.first];
  return reshaped(emit, narrow, shape);
}

/// `x` before it was repeated: 1 along dimensions along which it is found to be the same everywhere.
Value narrowed(Emitter &emit, Value x, int depth) {
  mlir::Operation *op = x ? x.getDefiningOp() : nullptr;
  if (!op || depth > maxDepth)
    return x;
  if (auto broadcast = mlir::dyn_cast<BroadcastOp>(op)) {
    Ints shape = ones(broadcast.getType().getRank() - dimsOf(broadcast.getOperand()).size());
    llvm::append_range(shape, dimsOf(broadcast.getOperand()));
    return narrowed(emit, reshaped(emit, broadcast.getOperand(), shape), depth + 1);
  }
  if (auto reshape = mlir::dyn_cast<ReshapeOp>(op))
    return narrowedReshape(emit, reshape, depth);
  if (auto cast = mlir::dyn_cast<CastOp>(op))
    return isFloat(dtypeOf(cast.getOperand().getType()))
               ? x
               : emit.cast(narrowed(emit, cast.getOperand(), depth + 1), dtypeOf(x.getType()));
  if (auto iota = mlir::dyn_cast<IotaOp>(op)) {
    Ints shape = ones(iota.getType().getRank());
    shape[iota.getDim()] = iota.getType().getShape()[iota.getDim()];
    return emit.iota(shape, iota.getDim(), dtypeOf(x.getType()));
  }
  return x;
}

/// Element `i` of the last dimension, which is dropped. Exporters join index tensors of one dimension each.
Value lastElement(Emitter &emit, Value indices, int64_t i) {
  Ints shape(dimsOf(indices).drop_back());
  int64_t axis = shape.size(), start = 0;
  auto concat = indices.getDefiningOp<ConcatOp>();
  if (!concat || static_cast<int64_t>(concat.getAxis()) != axis)
    return emit.reshape(emit.slice(indices, axis, i, 1), shape);
  for (Value piece : concat.getOperands()) {
    int64_t size = dimsOf(piece)[axis];
    if (i < start + size)
      return emit.reshape(emit.slice(piece, axis, i - start, 1), shape);
    start += size;
  }
  return {};
}

/// The index, counted from the front and within the dimension.
Value within(Emitter &emit, const Coordinate &coordinate) {
  Value index = coordinate.index;
  if (coordinate.isKnown)
    return index;
  Value zero = emit.scalarLike(index, 0), fromEnd = emit.add(index, static_cast<double>(coordinate.size));
  index = emit.where(emit.binary<LtOp>(index, zero), fromEnd, index);
  Value last = emit.scalarLike(index, static_cast<double>(coordinate.size - 1));
  return emit.binary<MinOp>(emit.binary<MaxOp>(index, zero), last);
}

/// Whether each coordinate is a line along a dimension of its own, so that a slice reads what they say.
bool areSlices(llvm::ArrayRef<Coordinate> coordinates) {
  llvm::SmallVector<int64_t> taken;
  for (const Coordinate &coordinate : coordinates) {
    if (!coordinate.line || llvm::is_contained(taken, coordinate.line->dim))
      return false;
    if (coordinate.line->dim >= 0)
      taken.push_back(coordinate.line->dim);
  }
  return true;
}

/// A slice with its dimensions put where those of the box are that they run along.
Value sliceAt(Emitter &emit, Value data, llvm::ArrayRef<Coordinate> coordinates, llvm::ArrayRef<int64_t> box) {
  Ints offsets(dimsOf(data).size(), 0), sizes(dimsOf(data)), strides(sizes.size(), 1);
  Ints single, order(box.size(), -1), shape = ones(box.size()), result(box);
  for (auto [dim, coordinate] : llvm::enumerate(coordinates)) {
    const Line &line = *coordinate.line;
    offsets[dim] = line.offset;
    sizes[dim] = line.dim < 0 ? 1 : box[line.dim];
    strides[dim] = sizes[dim] > 1 ? line.step : 1;
    if (line.dim < 0)
      single.push_back(dim);
    else
      shape[line.dim] = sizes[order[line.dim] = dim];
  }
  llvm::erase(order, -1);
  Ints permutation(single);
  llvm::append_range(permutation, order);
  for (size_t dim = coordinates.size(); dim < sizes.size(); ++dim) {
    permutation.push_back(dim);
    shape.push_back(sizes[dim]);
    result.push_back(sizes[dim]);
  }
  Value slice = emit.slice(data, offsets, sizes, strides);
  return emit.broadcast(emit.reshape(emit.transpose(slice, permutation), shape), result);
}

/// A gather without the box's dimensions of 1, and without the coordinates that are one number: those are sliced out.
struct Gather {
  Value data;
  llvm::SmallVector<Coordinate> coordinates;
  Ints box;

  Gather(Emitter &emit, Value all, llvm::ArrayRef<Coordinate> given, llvm::ArrayRef<int64_t> givenBox) {
    Ints offsets(dimsOf(all).size(), 0), sizes(dimsOf(all)), kept, newDims;
    for (int64_t size : givenBox) {
      newDims.push_back(box.size());
      if (size != 1)
        box.push_back(size);
    }
    for (auto [dim, coordinate] : llvm::enumerate(given)) {
      if (coordinate.line && coordinate.line->dim < 0) {
        offsets[dim] = coordinate.line->offset;
        sizes[dim] = 1;
        continue;
      }
      kept.push_back(sizes[dim]);
      Ints shape;
      for (auto [i, size] : llvm::enumerate(givenBox))
        if (size != 1)
          shape.push_back(dimsOf(coordinate.index)[i]);
      coordinates.push_back(coordinate);
      coordinates.back().index = emit.reshape(coordinate.index, shape);
      if (coordinate.line)
        coordinates.back().line->dim = newDims[coordinate.line->dim];
    }
    llvm::append_range(kept, llvm::ArrayRef(sizes).drop_front(given.size()));
    data = emit.reshape(emit.slice(all, offsets, sizes, Ints(sizes.size(), 1)), kept);
  }
};

/// Whether coordinate `own` runs along the box's dimension `dim`, all of the data's and in order, and no other depends
/// on it: a dimension that is kept as it is.
bool isKept(llvm::ArrayRef<Coordinate> coordinates, size_t own, llvm::ArrayRef<int64_t> box, size_t dim) {
  if (!coordinates[own].runsAlong(dim) || coordinates[own].line->offset != 0 || coordinates[own].size != box[dim])
    return false;
  for (auto [i, other] : llvm::enumerate(coordinates))
    if (i != own && other.varies(dim))
      return false;
  return true;
}

/// Dimensions in front and behind that are kept stay dimensions; those between become one, which a gather picks from.
Value gatherKeeping(Emitter &emit, const Gather &from) {
  llvm::ArrayRef<Coordinate> coordinates = from.coordinates;
  llvm::ArrayRef<int64_t> data = dimsOf(from.data), box = from.box;
  size_t front = 0, last = coordinates.size(), lastOfBox = box.size();
  while (front + 1 < last && front < lastOfBox && isKept(coordinates, front, box, front))
    ++front;
  while (front + 1 < last && front < lastOfBox && isKept(coordinates, last - 1, box, lastOfBox - 1)) {
    --last;
    --lastOfBox;
  }
  Value picked;
  int64_t picks = 1;
  for (size_t i = last; i-- > front;) {
    const Coordinate &coordinate = coordinates[i];
    Value index = last - front == 1 ? coordinate.index : within(emit, coordinate);
    Value step = emit.mul(index, static_cast<double>(picks));
    picked = picked ? emit.add(picked, step) : step;
    picks *= coordinate.size;
  }
  if (!picked)
    return {};
  Ints flat(data.take_front(front)), narrow(box.take_front(front)), result(box);
  flat.push_back(picks);
  llvm::append_range(flat, data.drop_front(last));
  llvm::ArrayRef<int64_t> index = dimsOf(picked).slice(front, lastOfBox - front);
  llvm::append_range(narrow, index);
  llvm::append_range(narrow, data.drop_front(last));
  llvm::append_range(result, data.drop_front(coordinates.size()));
  Value gathered = emit.gather(emit.reshape(from.data, flat), emit.reshape(picked, index), front);
  return emit.broadcast(emit.reshape(gathered, narrow), result);
}

} // namespace

Value positions(Emitter &emit, llvm::ArrayRef<int64_t> shape, size_t dim, DType type, bool isKnown) {
  Ints along = ones(shape.size());
  along[dim] = shape[dim];
  if (!isKnown || shape[dim] > maxFoldedElements)
    return emit.iota(along, dim, type);
  return emit.cast(emit.reshape(emit.integers(counted(shape[dim])), along), type);
}

bool areInside(Node &node, Value indices, int64_t size) {
  std::optional<Ints> known = Emitter::constantIntegers(indices);
  for (int64_t index : known.value_or(Ints()))
    if (index < -size || index >= size) {
      node.fail("index " + llvm::Twine(index) + " of a dimension of " + llvm::Twine(size));
      return false;
    }
  return true;
}

std::optional<Coordinate> coordinateOf(Node &node, Value indices, int64_t size) {
  Emitter &emit = node.emit;
  if (!indices || isFloat(dtypeOf(indices.getType())) || dtypeOf(indices.getType()) == DType::Bool) {
    node.fail("indices that are no integers");
    return std::nullopt;
  }
  Coordinate coordinate{.size = size, .line = {}, .index = narrowed(emit, indices)};
  std::optional<KnownIntegers> known = coordinate.index ? knownIntegers(coordinate.index) : std::nullopt;
  if (known) {
    for (int64_t &index : known->values) {
      if (index < -size || index >= size) {
        node.fail("index " + llvm::Twine(index) + " of a dimension of " + llvm::Twine(size));
        return std::nullopt;
      }
      index += index < 0 ? size : 0;
    }
    coordinate.isKnown = true;
    coordinate.line = lineThrough(*known);
    coordinate.index = emit.reshape(emit.integers(known->values), known->shape);
  } else if (auto iota = coordinate.index ? coordinate.index.getDefiningOp<IotaOp>() : IotaOp()) {
    int64_t dim = iota.getDim(), count = iota.getType().getShape()[dim];
    coordinate.isKnown = count <= size;
    if (coordinate.isKnown)
      coordinate.line = Line{count > 1 ? dim : -1, 0, 1};
  }
  coordinate.index = emit.cast(coordinate.index, DType::I64);
  return coordinate.index ? std::optional(coordinate) : std::nullopt;
}

std::optional<llvm::SmallVector<Coordinate>> coordinatesIn(Node &node, Value indices, llvm::ArrayRef<int64_t> sizes) {
  llvm::SmallVector<Coordinate> coordinates;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    std::optional<Coordinate> coordinate = coordinateOf(node, lastElement(node.emit, indices, i), size);
    if (!coordinate)
      return std::nullopt;
    coordinates.push_back(*coordinate);
  }
  return coordinates;
}

Coordinate positionAlong(Emitter &emit, llvm::ArrayRef<int64_t> box, size_t dim, int64_t size, bool isKnown) {
  Line line{box[dim] > 1 ? static_cast<int64_t>(dim) : -1, 0, 1};
  return {size, line, positions(emit, box, dim, DType::I64, isKnown), true};
}

Value gatherAt(Emitter &emit, Value data, llvm::ArrayRef<Coordinate> coordinates, llvm::ArrayRef<int64_t> box) {
  Ints result(box);
  llvm::append_range(result, dimsOf(data).drop_front(coordinates.size()));
  if (elementsIn(result) == 0)
    return emit.splat(0, dtypeOf(data.getType()), result);
  if (areSlices(coordinates))
    return sliceAt(emit, data, coordinates, box);

  Gather gather(emit, data, coordinates, box);
  return emit.failed() ? Value() : emit.reshape(gatherKeeping(emit, gather), result);
}

} // namespace kfuse::ir::onnx
