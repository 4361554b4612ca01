// Convolutions: products of weights and windows.
//
//   x [N, C, S...] -> windows, a row each: [N * O..., K... * C]     w [C', C, K...] -> [C', K... * C]
//   product [N * O..., C'] + bias -> [N, C', O...]
//
// A row holds all channels of a kernel position next to each other. Where x lies in memory with its channels last, as
// the convolution before writes it, it is read in runs of C elements, by addresses alone: the windows never lie in
// memory. Patches, whose windows lie side by side, are a reshape.
#include "ir/import/onnx/images/Ops.h"
#include "ir/import/onnx/images/Windows.h"

#include "llvm/ADT/STLExtras.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// A convolution's operands, in one type, and sizes.
struct Convolution {
  Value x, weights, bias; ///< [N, C, S...], [C', C / groups, K...], [C'] or null.
  Windows windows;
  int64_t groups;

  int64_t images() const { return dimsOf(x)[0]; }
  int64_t channels() const { return dimsOf(x)[1]; }
  int64_t results() const { return dimsOf(weights)[0]; }
  int64_t rank() const { return static_cast<int64_t>(windows.rank()); }
  /// Each result reads one channel.
  bool isDepthwise() const { return groups > 1 && groups == channels(); }
};

/// Appends `values` to `shape`.
Ints joined(std::initializer_list<llvm::ArrayRef<int64_t>> parts) {
  Ints all;
  for (llvm::ArrayRef<int64_t> part : parts)
    all.append(part.begin(), part.end());
  return all;
}

//===- Products ------------------------------------------------------------------------------===//

/// Rows of a product's left operand, and the weights in the same order: [G, rows, K] and [G, C', K], without G of 1.
struct Factors {
  Value rows, weights;
};

/// x as [G, N, C / G, S...], without G of 1.
Value grouped(Emitter &emit, const Convolution &conv, llvm::ArrayRef<int64_t> spatial, Value x) {
  if (conv.groups == 1)
    return x;
  x = emit.reshape(x, joined({{conv.images(), conv.groups, conv.channels() / conv.groups}, spatial}));
  Ints order = counted(spatial.size() + 3);
  std::swap(order[0], order[1]);
  return emit.transpose(x, order);
}

/// Weights as [G, C' / G, C / G, K...], without G of 1.
Value groupedWeights(Emitter &emit, const Convolution &conv) {
  if (conv.groups == 1)
    return conv.weights;
  return emit.reshape(conv.weights,
                      joined({{conv.groups, conv.results() / conv.groups}, dimsOf(conv.weights).drop_front()}));
}

/// Patches: x [.., C, O1 K1, O2 K2] -> [.., O1, O2, channels and kernel]. The kernel's last dimension stays innermost
/// where its runs are of 8 elements, as in the image; else the channels, if theirs are.
Factors patches(Emitter &emit, const Convolution &conv) {
  const Windows &windows = conv.windows;
  const int64_t lead = conv.groups > 1 ? 2 : 1, rank = conv.rank(), perGroup = conv.channels() / conv.groups;
  // The part of x that windows and the gaps behind them cover, in steps from one to the next.
  Value x = conv.x;
  Ints steps, covered;
  for (int64_t i = 0; i < rank && x; ++i) {
    const int64_t dim = i + 2, kernel = windows.kernel[i], count = windows.counts[i];
    const bool isAlone = kernel == 1 || count == 1;
    steps.push_back(isAlone ? kernel : windows.strides[i]);
    covered.push_back(count * steps.back());
    Ints sizes(dimsOf(x)), offsets(sizes.size(), 0), strides(sizes.size(), 1);
    strides[dim] = kernel == 1 && count > 1 ? windows.strides[i] : 1;
    sizes[dim] = std::min(covered.back(), sizes[dim]);
    x = emit.slice(x, offsets, sizes, strides);
    if (const int64_t missing = covered.back() - sizes[dim]; missing > 0) { // What the last gap lacks.
      sizes[dim] = missing;
      x = emit.concat({x, emit.splat(0, dtypeOf(conv.x.getType()), sizes)}, dim);
    }
  }
  x = grouped(emit, conv, covered, x);
  if (!x)
    return {};
  Ints lengths(dimsOf(x).take_front(lead + 1)), spatial, inner;
  for (int64_t i = 0; i < rank; ++i)
    lengths.append({windows.counts[i], steps[i]});
  x = emit.reshape(x, lengths);
  for (int64_t i = 0; i < rank; ++i) {
    lengths[lead + 2 + 2 * i] = windows.kernel[i];
    spatial.push_back(lead + 1 + 2 * i);
    inner.push_back(lead + 2 + 2 * i);
  }
  x = emit.slice(x, Ints(lengths.size(), 0), lengths, Ints(lengths.size(), 1));

  const bool channelsInside = windows.kernel.back() % 8 != 0 && (perGroup % 8 == 0 || windows.kernel.back() == 1);
  inner.insert(channelsInside ? inner.end() : inner.begin(), lead);
  Value rows = emit.transpose(x, joined({counted(lead), spatial, inner}));
  Value weights = groupedWeights(emit, conv);
  if (channelsInside)
    weights = emit.transpose(weights, joined({counted(lead), countedFrom(lead + 1, rank), {lead}}));
  return {rows, weights};
}

/// Windows that overlap or reach outside: x with its channels last, [.., S1, ..., Sk * C], in which a window's last
/// dimension is a run of K * C elements at strides of C.
Factors slidingWindows(Emitter &emit, const Convolution &conv) {
  const int64_t lead = conv.groups > 1 ? 2 : 1, rank = conv.rank(), perGroup = conv.channels() / conv.groups;
  Value x = grouped(emit, conv, conv.windows.sizes, conv.x);
  x = emit.transpose(x, joined({counted(lead), countedFrom(lead + 1, rank), {lead}}));
  if (!x)
    return {};
  Ints flat(dimsOf(x).drop_back());
  flat.back() *= perGroup;
  Windows runs = conv.windows;
  const int64_t last = rank - 1, reach = runs.reach(last), dilation = runs.dilations[last];
  runs.kernel[last] = reach * perGroup;
  runs.dilations[last] = 1;
  runs.strides[last] *= perGroup;
  runs.before[last] *= perGroup;
  Value windows = runs.of(emit, emit.reshape(x, flat)); // [.., K1, ..., Rk * C, O...]
  if (windows && dilation > 1) {
    const Ints front(dimsOf(windows).take_front(lead + last));
    Ints shape = joined({front, {reach, perGroup}, conv.windows.counts});
    windows = emit.reshape(windows, shape);
    Ints strides(shape.size(), 1);
    strides[lead + last] = dilation;
    shape[lead + last] = conv.windows.kernel[last];
    windows = emit.slice(windows, Ints(shape.size(), 0), shape, strides);
    windows = emit.reshape(windows, joined({front, {conv.windows.kernel[last] * perGroup}, conv.windows.counts}));
  }
  Value rows =
      emit.transpose(windows, joined({counted(lead), countedFrom(lead + rank, rank), countedFrom(lead, rank)}));
  Value weights = groupedWeights(emit, conv);
  return {rows, emit.transpose(weights, joined({counted(lead), countedFrom(lead + 1, rank), {lead}}))};
}

Value multiplied(Emitter &emit, const Convolution &conv) {
  const bool isGrouped = conv.groups > 1, isPointwise = conv.windows.taps() == 1;
  Factors factors = conv.windows.arePatches() ? patches(emit, conv) : slidingWindows(emit, conv);
  const int64_t images = conv.images(), positions = conv.windows.positions(), perGroup = conv.results() / conv.groups,
                depth = conv.channels() / conv.groups * conv.windows.taps();
  // A row's position decides on its address. With a kernel of one element it is a plain stride within an image.
  Ints rows = isPointwise && !isGrouped ? Ints{images, positions, depth} : Ints{images * positions, depth};
  Ints columns{perGroup, depth}, biasShape{1, perGroup};
  if (isGrouped) {
    for (Ints *shape : {&rows, &columns, &biasShape})
      shape->insert(shape->begin(), conv.groups);
  }
  Value product = emit.matmul(emit.reshape(factors.rows, rows), emit.reshape(factors.weights, columns), false, true);
  if (conv.bias)
    product = emit.add(product, emit.reshape(conv.bias, isGrouped ? biasShape : Ints{perGroup}));
  // [G, N, O..., C' / G] -> [N, G, C' / G, O...] -> [N, C', O...]
  const int64_t lead = isGrouped ? 2 : 1, rank = conv.rank();
  Ints shape = joined({{images}, conv.windows.counts, {perGroup}}),
       order = joined({{lead + rank}, countedFrom(lead, rank)});
  if (isGrouped)
    shape.insert(shape.begin(), conv.groups);
  order = joined({isGrouped ? Ints{1, 0} : Ints{0}, order});
  product = emit.transpose(emit.reshape(product, shape), order);
  return emit.reshape(product, joined({{images, conv.results()}, conv.windows.counts}));
}

//===- Depthwise -----------------------------------------------------------------------------===//

/// Taps up to which their products are added one after another, so that a kernel is elementwise.
constexpr int64_t mostUnrolled = 9;

/// Whether images lie in memory with their channels last, as far as can be told: `x` is a view of such, or computed
/// from one element by element.
bool haveChannelsLast(Value x) {
  constexpr int mostOps = 32;
  llvm::SmallVector<Value> pending{x};
  for (int i = 0; i < mostOps && !pending.empty(); ++i) {
    mlir::Operation *op = pending.pop_back_val().getDefiningOp();
    if (auto transpose = llvm::dyn_cast_if_present<TransposeOp>(op)) {
      const auto last = static_cast<int64_t>(transpose.getPermutation().size()) - 1;
      return last > 1 && transpose.getPermutation()[1] == last;
    }
    auto fusable = llvm::dyn_cast_if_present<FusableOpInterface>(op);
    if (fusable && fusable.getOpKind() == OpKind::Pointwise)
      for (Value operand : op->getOperands())
        if (dimsOf(operand) == dimsOf(x))
          pending.push_back(operand);
  }
  return false;
}

/// A channel's windows times its own weights, in f32: sums of several parts may lie in memory. In the order of x:
/// [N, C, C' / C, O...] or, with channels last, [N, O..., C, C' / C].
Value depthwise(Emitter &emit, const Convolution &conv) {
  const int64_t rank = conv.rank(), multiplier = conv.results() / conv.channels();
  const Windows &windows = conv.windows;
  const DType type = dtypeOf(conv.x.getType());
  const bool channelsLast = haveChannelsLast(conv.x);
  const Ints ones(rank, 1);
  // Windows as [N, C, 1, K..., O...], weights as [C, C' / C, K...], then in their order.
  Value x = emit.reshape(conv.x, joined({{conv.images(), conv.channels(), 1}, windows.sizes}));
  Value taps = windows.of(emit, emit.cast(x, DType::F32));
  Value weights = emit.reshape(conv.weights, joined({{conv.channels(), multiplier}, windows.kernel}));
  Value bias = conv.bias ? emit.cast(emit.reshape(conv.bias, {conv.channels(), multiplier}), DType::F32) : Value();
  const int64_t firstTap = channelsLast ? 1 + rank : 3, firstOfWeights = channelsLast ? 0 : 2;
  if (channelsLast) {
    taps = emit.transpose(taps, joined({{0}, countedFrom(3 + rank, rank), countedFrom(3, rank), {1, 2}}));
    weights = emit.transpose(weights, joined({countedFrom(2, rank), {0, 1}}));
  } else {
    weights = emit.reshape(weights, joined({{conv.channels(), multiplier}, windows.kernel, ones}));
    bias = emit.reshape(bias, joined({{conv.channels(), multiplier}, ones}));
  }
  weights = emit.cast(weights, DType::F32);
  Value sum;
  if (windows.taps() > mostUnrolled) {
    sum = emit.reduce(emit.mul(taps, weights), "sum", countedFrom(firstTap, rank));
  } else {
    auto at = [&](Value value, int64_t first, int64_t tap) -> Value {
      if (!value)
        return value;
      Ints shape(dimsOf(value)), offsets(shape.size(), 0);
      for (int64_t i = rank; i-- > 0; tap /= windows.kernel[i]) {
        offsets[first + i] = tap % windows.kernel[i];
        shape[first + i] = 1;
      }
      value = emit.slice(value, offsets, shape, Ints(shape.size(), 1));
      shape.erase(shape.begin() + first, shape.begin() + first + rank);
      return emit.reshape(value, shape);
    };
    for (int64_t tap = 0; tap < windows.taps(); ++tap) {
      Value product = emit.mul(at(taps, firstTap, tap), at(weights, firstOfWeights, tap));
      sum = sum ? emit.add(sum, product) : product;
    }
  }
  if (conv.bias)
    sum = emit.add(sum, bias);
  sum = emit.cast(sum, type);
  if (!channelsLast)
    return emit.reshape(sum, joined({{conv.images(), conv.results()}, windows.counts}));
  sum = emit.reshape(sum, joined({{conv.images()}, windows.counts, {conv.results()}}));
  return emit.transpose(sum, joined({{0, rank + 1}, countedFrom(1, rank)}));
}

Value convolve(Emitter &emit, const Convolution &conv) {
  return conv.isDepthwise() ? depthwise(emit, conv) : multiplied(emit, conv);
}

//===- Ops -----------------------------------------------------------------------------------===//

/// Whether kernel_shape, where given, is that of the weights, [.., .., K...].
bool saysItsKernel(Node &node, llvm::ArrayRef<int64_t> weights) {
  std::optional<Ints> said = node.integerList("kernel_shape");
  if (!said || llvm::ArrayRef(*said) == weights.drop_front(2))
    return true;
  node.fail("has kernel_shape " + toString(*said) + " and weights of shape " + toString(weights));
  return false;
}

/// x [N, C, S...] with weights [C', C / groups, K...], and the node's bias and attributes.
Value convolved(Node &node, Value x, Value weights) {
  const Ints image(dimsOf(x)), kernel(dimsOf(weights));
  const int64_t groups = node.integer("group", 1);
  std::optional<Windows> windows = Windows::of(node, image, llvm::ArrayRef(kernel).drop_front(2));
  if (!windows || !saysItsKernel(node, kernel))
    return {};
  const int64_t channels = image[1], results = kernel[0];
  if (groups < 1 || channels % groups != 0 || results % groups != 0 || kernel[1] != channels / groups) {
    node.fail("convolves " + toString(image) + " with weights of shape " + toString(kernel) + " in " +
              llvm::Twine(groups) + " groups");
    return {};
  }
  // PyTorch's exporter folds a BatchNormalization into weights of f32 beside an operand of bf16.
  const DType type = dtypeOf(x.getType());
  auto inTypeOfX = [&](Value value) {
    return value && isFloat(type) && isFloat(dtypeOf(value.getType())) ? node.emit.cast(value, type) : value;
  };
  return convolve(node.emit, {x, inTypeOfX(weights), inTypeOfX(node.input(2)), *windows, groups});
}

Values conv(Node &node) {
  if (node.rank(1) < 3 || !isFloat(node.type(0)))
    return node.fail("convolves " + toString(node.dims(0)) + " with " + toString(node.dims(1)) +
                     "; kfuse has floats [N, C, ...] and [C', C / groups, ...]");
  return convolved(node, node.input(0), node.input(1));
}

/// ONNX Runtime's, with channels last: [N, S..., C], weights [C', K..., C / groups], result [N, O..., C'].
Values convOfChannelsLast(Node &node) {
  const int64_t rank = node.rank(1) - 2;
  if (rank < 1 || node.rank(0) != node.rank(1) || !isFloat(node.type(0)))
    return node.fail("convolves " + toString(node.dims(0)) + " with " + toString(node.dims(1)) +
                     "; kfuse has floats [N, ..., C] and [C', ..., C / groups]");
  const Ints channelsFirst = joined({{0, rank + 1}, countedFrom(1, rank)});
  Value y = convolved(node, node.emit.transpose(node.input(0), channelsFirst),
                      node.emit.transpose(node.input(1), channelsFirst));
  return y ? node.emit.transpose(y, joined({{0}, countedFrom(2, rank), {1}})) : y;
}

/// Puts `stride - 1` zeros between neighbours of dimension `dim`.
Value spread(Emitter &emit, Value x, int64_t dim, int64_t stride) {
  if (!x || stride == 1)
    return x;
  const Ints shape(dimsOf(x));
  Ints split(shape), zeros, merged(shape);
  split.insert(split.begin() + dim + 1, 1);
  zeros = split;
  zeros[dim + 1] = stride - 1;
  merged[dim] *= stride;
  x = emit.concat({emit.reshape(x, split), emit.splat(0, dtypeOf(x.getType()), zeros)}, dim + 1);
  return emit.slice(emit.reshape(x, merged), dim, 0, merged[dim] - (stride - 1));
}

/// The transposed convolution: x with zeros between its elements, convolved with the kernel turned around.
Values convTranspose(Node &node) {
  Emitter &emit = node.emit;
  const int64_t groups = node.integer("group", 1), rank = node.rank(1) - 2;
  if (node.rank(1) < 3 || node.rank(0) != node.rank(1) || !isFloat(node.type(0)))
    return node.fail("convolves " + toString(node.dims(0)) + " with " + toString(node.dims(1)) +
                     "; kfuse has floats [N, C, ...] and [C, C' / groups, ...]");
  const Ints kernel(node.dims(1).drop_front(2)), sizes(node.dims(0).drop_front(2));
  const int64_t channels = node.dims(0)[1], perGroup = node.dims(1)[1];
  if (groups < 1 || channels % groups != 0 || node.dims(1)[0] != channels || !saysItsKernel(node, node.dims(1)))
    return node.fail("convolves " + toString(node.dims(0)) + " with weights of shape " + toString(node.dims(1)) +
                     " in " + llvm::Twine(groups) + " groups");
  if (node.has("output_shape") || node.text("auto_pad", "NOTSET") != "NOTSET")
    return node.fail(
        "asks for pads by output_shape or auto_pad; kfuse has explicit pads and output_padding, as PyTorch "
        "exports them");
  const Ints strides = node.integerList("strides").value_or(Ints(rank, 1)),
             dilations = node.integerList("dilations").value_or(Ints(rank, 1)),
             pads = node.integerList("pads").value_or(Ints(2 * rank, 0)),
             added = node.integerList("output_padding").value_or(Ints(rank, 0));
  auto isWithin = [](int64_t low) { return [low](int64_t n) { return n >= low && n <= (int64_t{1} << 24); }; };
  if (static_cast<int64_t>(strides.size()) != rank || static_cast<int64_t>(dilations.size()) != rank ||
      static_cast<int64_t>(pads.size()) != 2 * rank || static_cast<int64_t>(added.size()) != rank ||
      !llvm::all_of(strides, isWithin(1)) || !llvm::all_of(dilations, isWithin(1)) ||
      !llvm::all_of(pads, isWithin(0)) || !llvm::all_of(added, isWithin(0)) || !llvm::all_of(kernel, isWithin(1)) ||
      !llvm::all_of(sizes, isWithin(1)))
    return node.fail("has strides " + toString(strides) + ", dilations " + toString(dilations) + ", pads " +
                     toString(pads) + " and output_padding " + toString(added) + " for a kernel of shape " +
                     toString(kernel));

  // Windows over x with its zeros: the pads are what the kernel reaches outside, less what the node cuts off.
  Windows windows{{}, kernel, Ints(rank, 1), dilations, {}, {}, {}};
  Value x = node.input(0);
  for (int64_t i = 0; i < rank; ++i) {
    x = spread(emit, x, i + 2, strides[i]);
    const int64_t size = (sizes[i] - 1) * strides[i] + 1, outside = windows.reach(i) - 1;
    windows.sizes.push_back(size);
    windows.before.push_back(outside - pads[i]);
    windows.after.push_back(outside - pads[rank + i] + added[i]);
    windows.counts.push_back(size + windows.before[i] + windows.after[i] - outside);
    if (windows.counts[i] < 1)
      return node.fail("cuts off all of its result by pads " + toString(pads));
  }
  // What more than the whole border is cut from is cut from x.
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t cut = std::max<int64_t>(-windows.before[i], 0);
    if (cut > 0) {
      windows.sizes[i] -= cut;
      windows.before[i] = 0;
      x = emit.slice(x, i + 2, cut, windows.sizes[i]);
    }
  }
  // [C, C' / G, K...] -> turned around, [G, C / G, C' / G, K...] -> [C', C / G, K...]
  Ints shape(node.dims(1)), ends(shape.size(), 0), backwards(shape.size(), 1);
  for (int64_t i = 2; i < rank + 2; ++i) {
    ends[i] = shape[i] - 1;
    backwards[i] = -1;
  }
  Value weights = emit.slice(node.input(1), ends, shape, backwards);
  weights = emit.reshape(weights, joined({{groups, channels / groups, perGroup}, kernel}));
  weights = emit.transpose(weights, joined({{0, 2, 1}, countedFrom(3, rank)}));
  weights = emit.reshape(weights, joined({{groups * perGroup, channels / groups}, kernel}));
  if (node.failed())
    return Value();
  return convolve(emit, {x, weights, node.input(2), windows, groups});
}

constexpr OnnxOp table[] = {
    {"Conv", 2, 3, conv, "auto_pad dilations group kernel_shape pads strides"},
    {"com.microsoft.NhwcConv", 2, 3, convOfChannelsLast, "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", 2, 3, convTranspose,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
};

} // namespace

llvm::ArrayRef<OnnxOp> convolutionOps() { return table; }

} // namespace kfuse::ir::onnx
