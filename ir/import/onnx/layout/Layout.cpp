// Ops that only move elements, by a rule known when the model is read.
#include "ir/import/onnx/layout/Ops.h"

#include "llvm/ADT/STLExtras.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// The shape Reshape asks for: 0 keeps the operand's size unless `allowZero`, -1 takes what is left.
std::optional<Ints> reshapedTo(Node &node, llvm::ArrayRef<int64_t> asked, bool allowZero) {
  llvm::ArrayRef<int64_t> dims = node.dims(0);
  Ints shape(asked);
  std::optional<size_t> open;
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (size == 0 && !allowZero && i < dims.size())
      size = dims[i];
    if (size == -1 && !open) {
      open = i;
      size = 1;
    }
  }
  std::optional<int64_t> count = checkedElementCount(shape, node.type(0));
  int64_t elements = elementsIn(dims);
  if (open && count && *count > 0 && elements % *count == 0)
    shape[*open] = elements / *count;
  else if (open || !count || *count != elements) {
    node.fail("cannot give " + toString(dims) + " the shape " + toString(asked));
    return std::nullopt;
  }
  return shape;
}

Values reshape(Node &node) {
  std::optional<Ints> shape = node.sizeIntegers(1, "shape");
  if (shape)
    shape = reshapedTo(node, *shape, node.flag("allowzero"));
  return shape ? node.emit.reshape(node.input(0), *shape) : Value();
}

Values flatten(Node &node) {
  int64_t rank = node.rank(0), axis = node.integer("axis", 1);
  if (axis < -rank || axis > rank)
    return node.fail("axis " + llvm::Twine(axis) + " of a tensor of " + llvm::Twine(rank) + " dimensions");
  llvm::ArrayRef<int64_t> dims = node.dims(0);
  axis = axis < 0 ? axis + rank : axis;
  return node.emit.reshape(node.input(0), {elementsIn(dims.take_front(axis)), elementsIn(dims.drop_front(axis))});
}

Values squeeze(Node &node) {
  llvm::ArrayRef<int64_t> dims = node.dims(0);
  Ints axes, shape;
  if (std::optional<Ints> given = node.attributeOrInput("axes", 1))
    axes = node.normalised(*given, dims.size()).value_or(Ints());
  else
    for (auto [i, size] : llvm::enumerate(dims))
      if (size == 1)
        axes.push_back(i);
  for (auto [i, size] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(i)))
      shape.push_back(size);
    else if (size != 1)
      return node.fail("squeezes dimension " + llvm::Twine(i) + " of " + toString(dims) + ", which is not 1");
  }
  return node.emit.reshape(node.input(0), shape);
}

Values unsqueeze(Node &node) {
  std::optional<Ints> axes = node.attributeOrInput("axes", 1);
  if (!axes)
    return node.fail("has no axes");
  llvm::ArrayRef<int64_t> dims = node.dims(0);
  axes = node.normalised(*axes, dims.size() + axes->size());
  if (!axes)
    return Value();
  Ints shape(dims);
  for (int64_t axis : *axes)
    shape.insert(shape.begin() + axis, 1);
  return node.emit.reshape(node.input(0), shape);
}

Values transpose(Node &node) {
  std::optional<Ints> permutation = node.integerList("perm");
  if (!permutation)
    permutation = Ints(llvm::reverse(counted(node.rank(0))));
  for (int64_t &dim : *permutation) // Legacy exports of Mamba-2 count from the end.
    dim += dim < 0 ? node.rank(0) : 0;
  return node.emit.transpose(node.input(0), *permutation);
}

Values expand(Node &node) {
  std::optional<Ints> shape = node.sizeIntegers(1, "shape");
  if (!shape)
    return Value();
  Ints result;
  if (!detail::broadcastShapes(node.dims(0), *shape, result))
    return node.fail("cannot broadcast " + toString(node.dims(0)) + " with " + toString(*shape));
  Value expanded = node.emit.broadcast(node.input(0), result);
  return Emitter::varies(node.input(1)) ? node.emit.countingRows(expanded) : expanded;
}

/// A copy count per dimension: [.., d, ..] -> [.., 1, d, ..] -> [.., r, d, ..] -> [.., r d, ..].
Values tile(Node &node) {
  llvm::ArrayRef<int64_t> dims = node.dims(0);
  std::optional<Ints> repeats = node.constantIntegers(1, "repeats");
  if (!repeats)
    return Value();
  if (repeats->size() != dims.size())
    return node.fail("repeats " + toString(*repeats) + " of a tensor of shape " + toString(dims));
  Ints split, copied, merged;
  for (auto [size, count] : llvm::zip_equal(dims, *repeats)) {
    if (count < 0 || count > maxTensorBytes / std::max<int64_t>(size, 1))
      return node.fail("repeats " + toString(*repeats));
    if (count != 1 && size != 1) {
      split.push_back(1);
      copied.push_back(count);
    }
    split.push_back(size);
    copied.push_back(size == 1 ? count : size);
    merged.push_back(size * count);
  }
  Emitter &emit = node.emit;
  return emit.reshape(emit.broadcast(emit.reshape(node.input(0), split), copied), merged);
}

Values concat(Node &node) {
  int64_t axis = node.normalised(node.integer("axis", 0), node.rank(0));
  return node.emit.concat(node.allInputs(), axis);
}

/// Sizes of the pieces of `total`.
std::optional<Ints> splitSizes(Node &node, int64_t total) {
  if (std::optional<Ints> sizes = node.attributeOrInput("split", 1))
    return sizes;
  int64_t count = node.integer("num_outputs", node.outputCount());
  if (node.failed() || count < 1 || count > std::max<int64_t>(node.outputCount(), 1))
    return std::nullopt;
  // Equal pieces; the last is the smaller one.
  Ints sizes(count, (total + count - 1) / count);
  sizes.back() = total - sizes.front() * (count - 1);
  return sizes;
}

Values split(Node &node) {
  int64_t axis = node.normalised(node.integer("axis", 0), node.rank(0));
  if (node.failed())
    return Value();
  int64_t total = node.dims(0)[axis], offset = 0;
  std::optional<Ints> sizes = splitSizes(node, total);
  if (!sizes)
    return node.fail("does not say how to split " + llvm::Twine(total) + " into " + llvm::Twine(node.outputCount()));
  llvm::SmallVector<Value> pieces;
  for (int64_t size : *sizes) {
    if (size < 0 || size > total - offset)
      return node.fail("splits " + llvm::Twine(total) + " into " + toString(*sizes));
    pieces.push_back(node.emit.slice(node.input(0), axis, offset, size));
    offset += size;
  }
  if (offset != total)
    return node.fail("splits " + llvm::Twine(total) + " into " + toString(*sizes));
  return Values(pieces);
}

/// Start, end and step of one dimension of `size`, clamped as NumPy clamps them. "To the end" comes as
/// INT64_MAX, and "to the beginning, backwards" as INT64_MIN.
struct Cut {
  int64_t offset, count;
  Cut(int64_t start, int64_t end, int64_t step, int64_t size) {
    auto clamped = [&](int64_t index, int64_t low, int64_t high) {
      return std::clamp(index < 0 ? index + size : index, low, high);
    };
    offset = step > 0 ? clamped(start, 0, size) : clamped(start, 0, size - 1);
    int64_t last = step > 0 ? clamped(end, 0, size) : clamped(end, -1, size - 1);
    // Unsigned: the magnitude of INT64_MIN.
    uint64_t distance = step > 0 ? std::max<int64_t>(last - offset, 0) : std::max<int64_t>(offset - last, 0);
    uint64_t stride = step > 0 ? step : -static_cast<uint64_t>(step);
    count = static_cast<int64_t>((distance + stride - 1) / stride);
    if (distance > 0 && stride > distance)
      count = 1; // distance + stride may have wrapped.
  }
};

/// Rows of one dimension that a slice takes from where each run says.
struct RunTimeCut {
  Value first;             ///< Null: it is known where they begin.
  bool countsRows = false; ///< They are as many as a cache's, those behind the end being of no account.
};

/// The i-th of a slice's cuts, of `count` rows: at or behind a cache's past, counted from a present's end, or the end
/// of a table that is as long as the present.
RunTimeCut runTimeCut(Node &node, int64_t i, int64_t axis, int64_t start, int64_t end, int64_t count) {
  Emitter &emit = node.emit;
  CachedPast *past = emit.cachedPast();
  if (!past || start == 0)
    return {};
  const bool isOfRows = past->countsPresent(node.input(0), axis) || past->countsPast(node.input(0), axis);
  if (Emitter::varies(node.input(1))) {
    const bool reachesEnd = end >= node.dims(0)[axis];
    const bool endsWithRows = (isOfRows && (end < 0 || reachesEnd)) || Emitter::varies(node.input(2));
    const bool isPresent = !endsWithRows && reachesEnd && count == past->capacity;
    Value starts = past->atRunTime(node.input(1));
    if (!starts || !(endsWithRows || isPresent)) {
      node.fail("starts (input 1) depend on the length of a cache's past, and ends do not");
      return {};
    }
    return {emit.reshape(emit.slice(emit.cast(starts, DType::I64), 0, i, 1), {}), isPresent};
  }
  if (!isOfRows || start > 0)
    return {};
  Value size = past->atRunTime(emit.sizes(node.input(0), axis, axis + 1));
  if (!size)
    node.fail("it takes a part of a cache's rows where these share a dimension with others");
  return {emit.add(emit.reshape(size, {}), static_cast<double>(start))};
}

Values slice(Node &node) {
  llvm::ArrayRef<int64_t> dims = node.dims(0);
  std::optional<Ints> starts = node.sizeIntegers(1, "starts"), ends = node.sizeIntegers(2, "ends");
  if (!starts || !ends)
    return Value();
  Ints axes = counted(starts->size()), steps(starts->size(), 1);
  if (node.input(3))
    axes = node.constantIntegers(3, "axes").value_or(Ints());
  if (node.input(4))
    steps = node.constantIntegers(4, "steps").value_or(Ints());
  if (ends->size() != starts->size() || axes.size() != starts->size() || steps.size() != starts->size())
    return node.fail("gives " + llvm::Twine(starts->size()) + " starts, " + llvm::Twine(ends->size()) + " ends, " +
                     llvm::Twine(axes.size()) + " axes and " + llvm::Twine(steps.size()) + " steps");

  Value x = node.input(0);
  Ints offsets(dims.size(), 0), sizes(dims), strides(dims.size(), 1);
  for (auto [i, start, end, axis, step] : llvm::enumerate(*starts, *ends, axes, steps)) {
    axis = node.normalised(axis, dims.size());
    if (node.failed() || step == 0)
      return node.fail("has a step of 0");
    if (dims[axis] == 0)
      continue;
    Cut cut(start, end, step, dims[axis]);
    if (RunTimeCut rows = runTimeCut(node, i, axis, start, end, cut.count); rows.first && cut.count > 0) {
      if (step != 1)
        return node.fail("takes every " + llvm::Twine(step) + "th of a cache's rows, from where each run says");
      Value row = node.emit.add(node.emit.iota(cut.count, 0), rows.first);
      if (rows.countsRows)
        row = node.emit.countingRows(node.emit.binary<MinOp>(row, node.emit.scalarLike(row, dims[axis] - 1.0)));
      x = node.emit.gather(x, row, axis);
      sizes[axis] = cut.count;
      continue;
    }
    offsets[axis] = cut.count > 0 ? cut.offset : 0;
    sizes[axis] = cut.count;
    strides[axis] = cut.count > 1 ? step : 1;
  }
  Value result = node.emit.slice(x, offsets, sizes, strides);
  return Emitter::varies(node.input(2)) ? node.emit.countingRows(result) : result;
}

/// Where the elements before, of and behind a dimension of `size` come from: the nearest (edge), mirrored at the first
/// and the last (reflect), or from the other end (wrap).
Ints paddedPlaces(llvm::StringRef mode, int64_t size, int64_t before, int64_t after) {
  Ints places;
  const int64_t period = mode == "reflect" ? std::max<int64_t>(2 * (size - 1), 1) : size;
  for (int64_t i = -before; i < size + after; ++i) {
    if (mode == "edge") {
      places.push_back(std::clamp<int64_t>(i, 0, size - 1));
      continue;
    }
    const int64_t inPeriod = ((i % period) + period) % period;
    places.push_back(inPeriod < size ? inPeriod : period - inPeriod);
  }
  return places;
}

/// Borders of a constant are joined to the operand; what other modes repeat is gathered. A negative pad cuts. `pads`
/// holds what to add before each axis, then after each.
Values pad(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Ints> pads = node.constantIntegers(1, "pads");
  Ints axes = counted(node.rank(0));
  if (node.input(3))
    axes = node.constantIntegers(3, "axes").value_or(Ints());
  if (!pads || pads->size() != 2 * axes.size())
    return node.fail("gives other than two pads an axis");
  const llvm::StringRef mode = node.text("mode", "constant");
  if (!llvm::is_contained({"constant", "edge", "reflect", "wrap"}, mode))
    return node.fail("pads by mode '" + mode + "'; kfuse has constant, edge, reflect and wrap");
  Value value = node.input(2) ? emit.reshape(node.input(2), {}) : emit.splat(0, node.type(0));
  Value result = node.input(0);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    const int64_t dim = node.normalised(axis, node.rank(0));
    int64_t before = (*pads)[i], after = (*pads)[i + axes.size()];
    if (node.failed() || !result)
      return Value();
    const int64_t size = dimsOf(result)[dim], most = maxTensorBytes;
    if (before < -size || after < -size || before > most || after > most || size + before + after < 0)
      return node.fail("pads a dimension of " + llvm::Twine(size) + " by " + llvm::Twine(before) + " and " +
                       llvm::Twine(after));
    const int64_t cutBefore = std::max<int64_t>(-before, 0), cutAfter = std::max<int64_t>(-after, 0);
    result = emit.slice(result, dim, cutBefore, size - cutBefore - cutAfter);
    before = std::max<int64_t>(before, 0), after = std::max<int64_t>(after, 0);
    if (mode != "constant" && before + after > 0) {
      const int64_t left = size - cutBefore - cutAfter;
      if (left < 1 || left + before + after > maxFoldedElements)
        return node.fail("pads a dimension of " + llvm::Twine(left) + " to " + llvm::Twine(left + before + after) +
                         " by mode '" + mode + "'; at most " + llvm::Twine(maxFoldedElements) + " can be had");
      result = emit.gather(result, emit.integers(paddedPlaces(mode, left, before, after)), dim);
      continue;
    }
    auto border = [&](int64_t size) -> Value {
      Ints shape(dimsOf(result));
      shape[dim] = size;
      return emit.broadcast(value, shape);
    };
    if (before > 0 && result)
      result = emit.concat({border(before), result}, dim);
    if (after > 0 && result)
      result = emit.concat({result, border(after)}, dim);
  }
  return result;
}

constexpr OnnxOp table[] = {
    {"Concat", 1, anyNumber, concat, "axis"},
    {"Expand", 2, 2, expand},
    {"Flatten", 1, 1, flatten, "axis"},
    {"Pad", 2, 4, pad, "mode"},
    {"Reshape", 2, 2, reshape, "allowzero"},
    {"Slice", 3, 5, slice},
    {"Split", 1, 2, split, "axis num_outputs"},
    {"Squeeze", 1, 2, squeeze},
    {"Tile", 2, 2, tile},
    {"Transpose", 1, 1, transpose, "perm"},
    {"Unsqueeze", 1, 2, unsqueeze},
};

} // namespace

llvm::ArrayRef<OnnxOp> layoutOps() { return table; }

} // namespace kfuse::ir::onnx
