// Pools: reductions of windows.
#include "ir/import/onnx/images/Ops.h"
#include "ir/import/onnx/images/Windows.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

std::optional<Windows> poolWindows(Node &node) {
  std::optional<Ints> kernel = node.integerList("kernel_shape");
  if (!kernel) {
    node.fail("has no kernel_shape");
    return std::nullopt;
  }
  return Windows::of(node, node.dims(0), *kernel, node.flag("ceil_mode"));
}

bool givesOnlyValues(Node &node) {
  if (node.outputCount() < 2 || node.getProto().output(1).empty())
    return true;
  node.fail("gives indices too; kfuse has its values alone");
  return false;
}

/// What no element is below.
Value lowest(Emitter &emit, DType type) {
  if (isFloat(type))
    return emit.splat(-std::numeric_limits<double>::infinity(), type);
  const auto low =
      type == DType::I32 ? int64_t{std::numeric_limits<int32_t>::min()} : std::numeric_limits<int64_t>::min();
  return emit.cast(emit.reshape(emit.integers(low), {}), type);
}

/// The largest of each window; what lies outside x is below everything.
Values maxPool(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Windows> windows = poolWindows(node);
  if (!windows || !givesOnlyValues(node) || node.type(0) == DType::Bool)
    return node.fail("pools booleans");
  Value x = node.input(0), low = lowest(emit, node.type(0));
  for (size_t i = 0; i < windows->rank(); ++i) {
    const int64_t dim = static_cast<int64_t>(i) + 2;
    auto border = [&](int64_t size) {
      Ints shape(dimsOf(x));
      shape[dim] = size;
      return emit.broadcast(low, shape);
    };
    const int64_t beyond = windows->beyond(i);
    if (x && windows->before[i] > 0)
      x = emit.concat({border(windows->before[i]), x}, dim);
    if (x && beyond > 0)
      x = emit.concat({x, border(beyond)}, dim);
    windows->before[i] = 0;
  }
  const auto rank = static_cast<int64_t>(windows->rank());
  return emit.reduce(windows->of(emit, x), "max", countedFrom(2, rank));
}

/// How many elements each window of one dimension averages over: those of x and, with `withPads`, of the pads, but not
/// of what ceil_mode adds behind them.
std::vector<double> averaged(const Windows &windows, size_t dim, bool withPads) {
  const int64_t low = withPads ? -windows.before[dim] : 0,
                high = windows.sizes[dim] + (withPads ? windows.after[dim] : 0);
  std::vector<double> counts;
  for (int64_t i = 0; i < windows.counts[dim]; ++i) {
    const int64_t first = i * windows.strides[dim] - windows.before[dim];
    int64_t count = 0;
    for (int64_t tap = 0; tap < windows.kernel[dim]; ++tap) {
      const int64_t at = first + tap * windows.dilations[dim];
      count += at >= low && at < high;
    }
    counts.push_back(static_cast<double>(count));
  }
  return counts;
}

/// In f32: 16 bits hold neither the sums nor the shares.
Values averagePool(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Windows> windows = poolWindows(node);
  if (!windows)
    return Value();
  constexpr int64_t mostTaps = int64_t{1} << 24; // Counted one by one.
  const auto rank = static_cast<int64_t>(windows->rank());
  Value sum = windows->of(emit, emit.cast(node.input(0), DType::F32));
  sum = emit.reduce(sum, "sum", countedFrom(2, rank));
  for (int64_t i = 0; i < rank && sum; ++i) {
    if (windows->counts[i] * windows->kernel[i] > mostTaps)
      return node.fail("averages over windows of " + toString(windows->kernel));
    std::vector<double> shares = averaged(*windows, i, node.flag("count_include_pad"));
    for (double &count : shares)
      count = 1 / std::max(count, 1.0);
    if (llvm::all_equal(shares)) {
      sum = emit.mul(sum, shares.front());
      continue;
    }
    Shape shape(rank, 1);
    shape[i] = windows->counts[i];
    sum = emit.mul(sum, emit.constant(reference::tensorOf(DType::F32, shape, shares)));
  }
  return emit.cast(sum, node.type(0));
}

/// The p-norm of each window, for the p that are written.
Values lpPool(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Windows> windows = poolWindows(node);
  const int64_t p = node.integer("p", 2);
  if (!windows)
    return Value();
  if (p != 1 && p != 2)
    return node.fail("pools by p = " + llvm::Twine(p) + "; kfuse has 1 and 2");
  Value x = emit.cast(node.input(0), DType::F32);
  x = p == 1 ? emit.unary<AbsOp>(x) : emit.mul(x, x);
  Value sum = emit.reduce(windows->of(emit, x), "sum", countedFrom(2, windows->rank()));
  return emit.cast(p == 1 ? sum : emit.unary<SqrtOp>(sum), node.type(0));
}

/// Over all positions of a channel.
Values global(Node &node, llvm::StringRef function) {
  if (node.rank(0) < 3)
    return node.fail("pools " + toString(node.dims(0)) + ", which should be [N, C, ...]");
  return node.emit.reduceKeepingDims(node.input(0), function, countedFrom(2, node.rank(0) - 2));
}

constexpr OnnxOp table[] = {
    {"AveragePool", 1, 1, averagePool, "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"GlobalAveragePool", 1, 1, [](Node &node) { return global(node, "mean"); }},
    {"GlobalMaxPool", 1, 1, [](Node &node) { return global(node, "max"); }},
    {"LpPool", 1, 1, lpPool, "auto_pad ceil_mode dilations kernel_shape p pads strides"},
    {"MaxPool", 1, 1, maxPool, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
};

} // namespace

llvm::ArrayRef<OnnxOp> poolingOps() { return table; }

} // namespace kfuse::ir::onnx
