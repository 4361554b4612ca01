// GridSample: results are read from where a grid says, between elements, too.
//
//   x [N, C, S1, ..., Sk], grid [N, O1, ..., Ok, k] -> [N, C, O1, ..., Ok]
//
// A grid's last dimension holds a place along Sk first, along S1 last. What a result is made of are `taps` along each
// dimension: elements, each with a weight. They are gathered by computed addresses, so that it all is elementwise.
#include "ir/import/onnx/images/Ops.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Keys's kernel has this slope at 1.
constexpr double cubicSlope = -0.75;

enum class Mode { Nearest, Linear, Cubic };
enum class Padding { Zeros, Border, Reflection };

/// An element along one dimension for each result, [N, 1, O1, ..., Ok].
struct Tap {
  Value place;    ///< An index within the dimension, of an integer type.
  Value isInside; ///< Null: what lies outside has been brought inside.
  Value weight;   ///< In F32; null is 1.
};

class Sampling {
public:
  Sampling(Node &node, Mode mode, Padding padding)
      : node(node), emit(node.emit), mode(mode), padding(padding), alignsCorners(node.flag("align_corners")),
        dims(node.dims(0)), rank(static_cast<int64_t>(dims.size()) - 2) {}

  Value run() {
    Ints shape(dims.take_front(2)), grid(node.dims(1));
    shape.append(grid.begin() + 1, grid.end() - 1);
    if (elementsIn(shape) == 0)
      return emit.splat(0, node.type(0), shape);
    if (elementsIn(dims) == 0)
      return node.fail("reads from a tensor of shape " + toString(dims) + ", which has no elements");
    const int64_t elements = elementsIn(dims);
    indexType = elements <= std::numeric_limits<int32_t>::max() ? DType::I32 : DType::I64;
    flat = emit.reshape(node.input(0), elements);
    llvm::SmallVector<llvm::SmallVector<Tap>> taps;
    for (int64_t axis = 0; axis < rank; ++axis)
      taps.push_back(tapsAlong(axis));
    if (node.failed())
      return {};

    Ints images(shape.size(), 1), channels(images);
    images[0] = dims[0];
    channels[1] = dims[1];
    const int64_t perChannel = elementsIn(dims.drop_front(2));
    Value first = emit.add(emit.mul(emit.iota(images, 0, indexType), static_cast<double>(dims[1] * perChannel)),
                           emit.mul(emit.iota(channels, 1, indexType), static_cast<double>(perChannel)));
    Value result = weighed(taps, first, {}, perChannel);
    return result ? emit.cast(emit.broadcast(result, shape), node.type(0)) : result;
  }

private:
  /// Where results lie along a dimension, in its elements: the grid counts from -1 to 1, from the first element's
  /// middle to the last one's, or from its beginning to the last one's end.
  Value coordinate(int64_t axis) {
    Value grid = node.input(1);
    const int64_t last = node.rank(1) - 1;
    Ints shape(node.dims(1).drop_back());
    shape.insert(shape.begin() + 1, 1);
    Value at = emit.cast(emit.reshape(emit.slice(grid, last, rank - 1 - axis, 1), shape), DType::F32);
    const auto size = static_cast<double>(dims[axis + 2]);
    return alignsCorners ? emit.mul(emit.add(at, 1.0), (size - 1) / 2)
                         : emit.mul(emit.add(emit.mul(emit.add(at, 1.0), size), -1.0), 0.5);
  }

  double firstEdge() const { return alignsCorners ? 0 : -0.5; }
  double lastEdge(int64_t axis) const { return static_cast<double>(dims[axis + 2]) - (alignsCorners ? 1 : 0.5); }

  Value clipped(Value x, int64_t axis) {
    Value last = emit.scalarLike(x, static_cast<double>(dims[axis + 2] - 1));
    return emit.binary<MinOp>(emit.binary<MaxOp>(x, emit.scalarLike(x, 0)), last);
  }

  /// Mirrored at both edges as often as it takes to come between them.
  Value reflected(Value x, int64_t axis) {
    const double low = firstEdge(), length = lastEdge(axis) - low;
    if (length == 0)
      return emit.splat(0, DType::F32, x ? dimsOf(x) : llvm::ArrayRef<int64_t>());
    Value distance = emit.add(x, -low);
    distance = emit.binary<ModOp>(distance, emit.scalarLike(x, 2 * length));
    Value back = emit.sub(emit.scalarLike(x, 2 * length), distance);
    return emit.add(emit.binary<MinOp>(distance, back), low);
  }

  /// The element at `place`, whole numbers in F32 that may lie outside.
  Tap tapAt(Value place, Value weight, int64_t axis) {
    if (!place)
      return {};
    Value isInside;
    if (padding == Padding::Reflection)
      place = reflected(place, axis);
    if (padding == Padding::Zeros) {
      Value last = emit.scalarLike(place, static_cast<double>(dims[axis + 2] - 1));
      isInside =
          emit.binary<AndOp>(emit.binary<GeOp>(place, emit.scalarLike(place, 0)), emit.binary<LeOp>(place, last));
    }
    return {emit.cast(clipped(place, axis), indexType), isInside, weight};
  }

  llvm::SmallVector<Tap> tapsAlong(int64_t axis) {
    Value x = coordinate(axis);
    if (mode == Mode::Nearest)
      return {tapAt(emit.unary<RoundOp>(x), {}, axis)};
    if (mode == Mode::Linear && padding == Padding::Reflection)
      x = reflected(x, axis);
    if (mode == Mode::Linear && padding != Padding::Zeros)
      x = clipped(x, axis);
    // What lies beyond the edges is at the first or last element, as in ONNX Runtime. PyTorch's kernel reaches back
    // into the image up to a place and a half further out.
    if (mode == Mode::Cubic && padding == Padding::Border) {
      Value isOutside = emit.binary<OrOp>(emit.binary<LtOp>(x, emit.scalarLike(x, firstEdge())),
                                          emit.binary<GtOp>(x, emit.scalarLike(x, lastEdge(axis))));
      x = emit.where(isOutside, clipped(x, axis), x);
    }
    Value below = emit.unary<FloorOp>(x), up = emit.sub(x, below), down = emit.sub(emit.scalarLike(x, 1), up);
    if (mode == Mode::Linear)
      return {tapAt(below, down, axis), tapAt(emit.add(below, 1.0), up, axis)};
    return {tapAt(emit.add(below, -1.0), outerWeight(emit.add(up, 1.0)), axis), tapAt(below, innerWeight(up), axis),
            tapAt(emit.add(below, 1.0), innerWeight(down), axis),
            tapAt(emit.add(below, 2.0), outerWeight(emit.add(down, 1.0)), axis)};
  }

  /// Keys's cubic kernel up to 1, and from 1 to 2.
  Value innerWeight(Value x) {
    Value factor = emit.add(emit.mul(x, cubicSlope + 2), -(cubicSlope + 3));
    return emit.add(emit.mul(emit.mul(factor, x), x), 1.0);
  }
  Value outerWeight(Value x) {
    Value sum = emit.add(emit.mul(x, cubicSlope), -5 * cubicSlope);
    sum = emit.add(emit.mul(sum, x), 8 * cubicSlope);
    return emit.add(emit.mul(sum, x), -4 * cubicSlope);
  }

  /// The sum over the taps of the dimensions that `taps` is left with, of `elements` elements.
  Value weighed(llvm::ArrayRef<llvm::SmallVector<Tap>> taps, Value address, Value isInside, int64_t elements) {
    if (taps.empty()) {
      Value element = emit.gather(flat, address, 0);
      if (mode != Mode::Nearest)
        element = emit.cast(element, DType::F32);
      return isInside ? emit.where(isInside, element, emit.scalarLike(element, 0)) : element;
    }
    const int64_t axis = rank - static_cast<int64_t>(taps.size()), step = elements / dims[axis + 2];
    Value sum;
    for (const Tap &tap : taps.front()) {
      Value here = emit.add(address, emit.mul(tap.place, static_cast<double>(step)));
      Value inside = isInside && tap.isInside ? emit.binary<AndOp>(isInside, tap.isInside)
                     : tap.isInside           ? tap.isInside
                                              : isInside;
      Value part = weighed(taps.drop_front(), here, inside, step);
      if (tap.weight)
        part = emit.mul(part, tap.weight);
      sum = sum ? emit.add(sum, part) : part;
    }
    return sum;
  }

  Node &node;
  Emitter &emit;
  const Mode mode;
  const Padding padding;
  const bool alignsCorners;
  const llvm::ArrayRef<int64_t> dims;
  const int64_t rank;
  DType indexType = DType::I32;
  Value flat;
};

std::optional<Mode> modeOf(llvm::StringRef name) {
  if (name == "nearest")
    return Mode::Nearest;
  if (name == "linear" || name == "bilinear") // Before opset 20.
    return Mode::Linear;
  if (name == "cubic" || name == "bicubic")
    return Mode::Cubic;
  return std::nullopt;
}

std::optional<Padding> paddingOf(llvm::StringRef name) {
  if (name == "zeros")
    return Padding::Zeros;
  if (name == "border")
    return Padding::Border;
  if (name == "reflection")
    return Padding::Reflection;
  return std::nullopt;
}

Values gridSample(Node &node) {
  const llvm::StringRef modeName = node.text("mode", "linear"), paddingName = node.text("padding_mode", "zeros");
  const std::optional<Mode> mode = modeOf(modeName);
  const std::optional<Padding> padding = paddingOf(paddingName);
  if (!mode || !padding)
    return node.fail("samples by mode '" + modeName + "' and padding_mode '" + paddingName +
                     "'; kfuse has nearest, linear and cubic, and zeros, border and reflection");
  const int64_t rank = node.rank(0) - 2;
  llvm::ArrayRef<int64_t> dims = node.dims(0), grid = node.dims(1);
  if (rank < 1 || node.rank(1) != rank + 2 || grid.back() != rank || grid.front() != dims.front())
    return node.fail("x of shape " + toString(dims) + " and a grid of shape " + toString(grid) +
                     "; expected are [N, C, S1, ..., Sk] and [N, O1, ..., Ok, k]");
  const int64_t most = *mode == Mode::Cubic ? 2 : 3; // Taps multiply: 16, or 8.
  if (rank > most)
    return node.fail("samples " + llvm::Twine(rank) + " dimensions by mode '" + modeName + "'; at most " +
                     llvm::Twine(most) + " can be had");
  if (*mode != Mode::Nearest && !isFloat(node.type(0)))
    return node.fail("interpolates integers; kfuse takes them by mode nearest");
  return Sampling(node, *mode, *padding).run();
}

constexpr OnnxOp table[] = {
    {"GridSample", 2, 2, gridSample, "align_corners mode padding_mode"},
};

} // namespace

llvm::ArrayRef<OnnxOp> gridSampleOps() { return table; }

} // namespace kfuse::ir::onnx
