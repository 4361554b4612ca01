// Resize: along each axis every result is a weighted sum of a few elements whose places are known.
#include "ir/import/onnx/images/Ops.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Up to which an axis may be resized to: its places and weights are constants.
constexpr int64_t mostResized = maxFoldedElements;

/// How one axis is resized.
struct Axis {
  int64_t dim, from, to;
  double scale; ///< to / from, or what the node says.
};

/// `places[t][o]` of the axis, `weights[t][o]` times each, added up over t, are result o.
struct Taps {
  std::vector<Ints> places;
  std::vector<std::vector<double>> weights;
};

//===- Coordinates ---------------------------------------------------------------------------===//

/// Where on the operand's axis result `o` lies.
double coordinate(llvm::StringRef transformation, const Axis &axis, int64_t o) {
  const auto at = static_cast<double>(o), from = static_cast<double>(axis.from), to = static_cast<double>(axis.to);
  if (transformation == "asymmetric")
    return at / axis.scale;
  if (transformation == "align_corners")
    return axis.to == 1 ? 0 : at * (from - 1) / (to - 1);
  if (transformation == "pytorch_half_pixel" && axis.to == 1)
    return 0;
  double centred = (at + 0.5) / axis.scale - 0.5;
  if (transformation == "half_pixel_symmetric") // Scales that do not divide: the centre stays the centre.
    centred += from / 2 * (1 - to / (axis.scale * from));
  return centred;
}

int64_t nearest(llvm::StringRef mode, double at) {
  const double below = std::floor(at);
  const double up = at - below;
  const bool isAbove = mode == "ceil" ? up > 0 : mode == "round_prefer_ceil" ? up >= 0.5 : mode != "floor" && up > 0.5;
  return static_cast<int64_t>(below) + isAbove;
}

/// Keys's cubic kernel: `a` is its slope at 1.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

struct Interpolation {
  llvm::StringRef mode, transformation, nearestMode;
  double cubicSlope;
  bool excludesOutside, antialias;

  /// Results that an axis of elements 0, 1, ... would have at `at`: from which place on, and the weights.
  std::pair<int64_t, std::vector<double>> at(double at, double scale) const {
    if (mode == "nearest")
      return {nearest(nearestMode, at), {1}};
    // An antialiased kernel is as wide as what a result stands for.
    const double narrowing = antialias ? std::min(scale, 1.0) : 1, support = (mode == "cubic" ? 2 : 1) / narrowing;
    const auto first = static_cast<int64_t>(std::floor(at - support)) + 1,
               last = static_cast<int64_t>(std::ceil(at + support)) - 1;
    std::vector<double> weights;
    for (int64_t place = first; place <= std::max(first, last); ++place) {
      const double distance = (static_cast<double>(place) - at) * narrowing;
      weights.push_back(mode == "cubic" ? cubic(distance, cubicSlope) : std::max(0.0, 1 - std::abs(distance)));
    }
    return {first, weights};
  }

  Taps of(const Axis &axis) const {
    Taps taps;
    for (int64_t o = 0; o < axis.to; ++o) {
      auto [first, weights] = at(coordinate(transformation, axis, o), axis.scale);
      double sum = 0;
      for (auto [i, weight] : llvm::enumerate(weights)) {
        const int64_t place = first + static_cast<int64_t>(i);
        if (excludesOutside && (place < 0 || place >= axis.from))
          weight = 0;
        sum += weight;
      }
      // Results of fewer weights read their first element again, times 0.
      weights.resize(std::max(weights.size(), taps.places.size()), 0.0);
      for (auto [i, weight] : llvm::enumerate(weights)) {
        if (i == taps.places.size()) {
          taps.places.emplace_back(axis.to, 0);
          taps.weights.emplace_back(axis.to, 0.0);
        }
        const int64_t place = first + (weight == 0 ? 0 : static_cast<int64_t>(i));
        taps.places[i][o] = std::clamp<int64_t>(place, 0, axis.from - 1);
        taps.weights[i][o] = sum == 0 ? 0 : weight / sum;
      }
    }
    return taps;
  }
};

//===- Along one axis ------------------------------------------------------------------------===//

/// The elements of `x` at `places` of dimension `dim`. Where each is repeated, or every other one is taken, an address.
Value taken(Emitter &emit, Value x, int64_t dim, llvm::ArrayRef<int64_t> places) {
  if (!x)
    return x;
  const Ints shape(dimsOf(x));
  const auto count = static_cast<int64_t>(places.size());
  const int64_t step = count > 1 ? places[1] - places[0] : 1, repeats = count / shape[dim];
  auto each = [&](auto at) {
    return llvm::all_of(llvm::enumerate(places), [&](auto e) { return e.value() == at(e.index()); });
  };
  if (repeats > 1 && count % shape[dim] == 0 && each([&](int64_t o) { return o / repeats; })) {
    Ints split(shape), copied, merged(shape);
    split.insert(split.begin() + dim + 1, 1);
    copied = split;
    copied[dim + 1] = repeats;
    merged[dim] = count;
    return emit.reshape(emit.broadcast(emit.reshape(x, split), copied), merged);
  }
  if (step > 0 && each([&](int64_t o) { return places[0] + o * step; })) {
    Ints offsets(shape.size(), 0), sizes(shape), strides(shape.size(), 1);
    offsets[dim] = places[0];
    sizes[dim] = count;
    strides[dim] = count > 1 ? step : 1;
    return emit.slice(x, offsets, sizes, strides);
  }
  return emit.gather(x, emit.integers(places), dim);
}

Value resized(Emitter &emit, Value x, const Axis &axis, const Taps &taps) {
  Value sum;
  for (auto [places, weights] : llvm::zip_equal(taps.places, taps.weights)) {
    Value part = taken(emit, x, axis.dim, places);
    if (!part)
      return {};
    if (!llvm::all_of(weights, [](double weight) { return weight == 1; })) {
      Shape shape(dimsOf(x).size() - axis.dim, 1);
      shape.front() = axis.to;
      part = emit.mul(part, emit.constant(reference::tensorOf(DType::F32, shape, weights)));
    }
    sum = sum ? emit.add(sum, part) : part;
  }
  return sum;
}

//===- The op --------------------------------------------------------------------------------===//

/// An optional input is as good as absent where it is empty.
bool isGiven(Node &node, unsigned i) { return node.input(i) && node.dims(i) != llvm::ArrayRef<int64_t>(0); }

/// The axes that change, from `sizes` or `scales`.
std::optional<llvm::SmallVector<Axis>> changedAxes(Node &node) {
  Ints axes = node.integerList("axes").value_or(counted(node.rank(0)));
  (void)node.normalised(axes, node.rank(0)); // Fails where one is named twice.
  for (int64_t &axis : axes)
    axis = node.normalised(axis, node.rank(0));
  const bool hasSizes = isGiven(node, 3), hasScales = isGiven(node, 2);
  if (node.failed())
    return std::nullopt;
  if (hasSizes == hasScales) {
    node.fail("needs either scales or sizes");
    return std::nullopt;
  }
  std::vector<double> numbers;
  if (hasSizes) {
    for (int64_t size : node.constantIntegers(3, "sizes").value_or(Ints()))
      numbers.push_back(static_cast<double>(size));
  } else if (std::optional<HostTensor> scales = Emitter::constantOf(node.input(2))) {
    numbers = reference::toDoubles(*scales);
  } else {
    node.fail("scales (input 2) must be known when the model is read");
  }
  if (node.failed() || numbers.size() != axes.size()) {
    node.fail("gives " + llvm::Twine(numbers.size()) + " sizes or scales for " + llvm::Twine(axes.size()) + " axes");
    return std::nullopt;
  }
  llvm::SmallVector<Axis> changed;
  for (auto [dim, number] : llvm::zip_equal(axes, numbers)) {
    const int64_t from = node.dims(0)[dim];
    const auto length = static_cast<double>(from);
    const double to = hasSizes ? number : std::floor(length * number);
    if (!(number > 0) || !(to >= 1) || to > static_cast<double>(mostResized)) {
      node.fail("resizes a dimension of " + llvm::Twine(from) + " to " +
                llvm::Twine(static_cast<int64_t>(std::clamp(to, -1.0, 1e15))) + "; at least 1 and at most " +
                llvm::Twine(mostResized) + " can be had");
      return std::nullopt;
    }
    const Axis axis{dim, from, static_cast<int64_t>(to), hasSizes ? to / length : number};
    if (axis.to != from || axis.scale != 1)
      changed.push_back(axis);
  }
  return changed;
}

Values resize(Node &node) {
  Emitter &emit = node.emit;
  const Interpolation how{node.text("mode", "nearest"),
                          node.text("coordinate_transformation_mode", "half_pixel"),
                          node.text("nearest_mode", "round_prefer_floor"),
                          node.real("cubic_coeff_a", -0.75),
                          node.flag("exclude_outside"),
                          node.flag("antialias")};
  if (!llvm::is_contained({"nearest", "linear", "cubic"}, how.mode))
    return node.fail("resizes by mode '" + how.mode + "'; kfuse has nearest, linear and cubic");
  if (!llvm::is_contained({"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"},
                          how.transformation))
    return node.fail("resizes by coordinate_transformation_mode '" + how.transformation +
                     "'; kfuse has half_pixel, pytorch_half_pixel, half_pixel_symmetric, asymmetric and align_corners");
  if (node.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    return node.fail("keeps the aspect ratio by policy; give the sizes themselves");
  std::optional<llvm::SmallVector<Axis>> axes = changedAxes(node);
  if (!axes)
    return Value();
  // Scales that change no size: PyTorch and ONNX Runtime leave the tensor as it is.
  if (llvm::all_of(*axes, [](const Axis &axis) { return axis.from == axis.to; }))
    return node.input(0);
  if (how.mode == "nearest") {
    Value x = node.input(0);
    for (const Axis &axis : *axes)
      x = taken(emit, x, axis.dim, how.of(axis).places.front());
    return x;
  }
  if (!isFloat(node.type(0)))
    return node.fail("interpolates integers; kfuse takes them by mode nearest");
  constexpr size_t mostTaps = 32; // Each is an op.
  Value x = emit.cast(node.input(0), DType::F32);
  for (const Axis &axis : *axes) {
    const Taps taps = how.of(axis);
    if (taps.places.size() > mostTaps)
      return node.fail("averages over " + llvm::Twine(taps.places.size()) + " elements of a dimension of " +
                       llvm::Twine(axis.from) + ", at most " + llvm::Twine(mostTaps) + " can be had");
    x = resized(emit, x, axis, taps);
  }
  return emit.cast(x, node.type(0));
}

constexpr OnnxOp table[] = {
    {"Resize", 1, 4, resize,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
     "keep_aspect_ratio_policy mode nearest_mode",
     /*numbers=*/2},
};

} // namespace

llvm::ArrayRef<OnnxOp> resizeOps() { return table; }

} // namespace kfuse::ir::onnx
