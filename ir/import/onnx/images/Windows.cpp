#include "ir/import/onnx/images/Windows.h"

#include "llvm/ADT/STLExtras.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Far above any model's kernel or stride, and no sum of products of two of them overflows.
constexpr int64_t mostOfAttribute = int64_t{1} << 24;

/// An attribute of `count` numbers from `least` up, all `otherwise` where the node has none.
std::optional<Ints> numbers(Node &node, llvm::StringRef name, size_t count, int64_t otherwise, int64_t least) {
  Ints given = node.integerList(name).value_or(Ints(count, otherwise));
  auto isSmall = [&](int64_t number) { return number >= least && number <= mostOfAttribute; };
  if (!node.failed() && given.size() == count && llvm::all_of(given, isSmall))
    return given;
  node.fail("has " + name + " " + toString(given) + "; expected are " + llvm::Twine(count) + " numbers of " +
            llvm::Twine(least) + " to " + llvm::Twine(mostOfAttribute));
  return std::nullopt;
}

/// auto_pad's SAME: as many windows as strides fit, and what they lack is added at both ends; an odd element at the end
/// (UPPER) or at the beginning (LOWER).
void padToSame(Windows &windows, bool isUpper) {
  for (size_t i = 0; i < windows.rank(); ++i) {
    windows.counts[i] = (windows.sizes[i] + windows.strides[i] - 1) / windows.strides[i];
    const int64_t lacking =
        std::max<int64_t>((windows.counts[i] - 1) * windows.strides[i] + windows.reach(i) - windows.sizes[i], 0);
    windows.before[i] = isUpper ? lacking / 2 : lacking - lacking / 2;
    windows.after[i] = lacking - windows.before[i];
  }
}

/// Counts the windows that fit between the pads.
bool countWithin(Windows &windows, bool ceil) {
  for (size_t i = 0; i < windows.rank(); ++i) {
    const int64_t stride = windows.strides[i], padded = windows.before[i] + windows.sizes[i] + windows.after[i],
                  room = padded - windows.reach(i);
    if (room < 0) {
      if (!ceil || room + stride <= 0)
        return false;
      // One window begins, of which only this much is there: EfficientNet's last pool has its channels as kernel.
      windows.kernel[i] = (padded - 1) / windows.dilations[i] + 1;
      windows.counts[i] = 1;
      continue;
    }
    windows.counts[i] = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    // The last one begins inside the operand or before it.
    if (ceil && (windows.counts[i] - 1) * stride >= windows.sizes[i] + windows.before[i])
      --windows.counts[i];
  }
  return true;
}

} // namespace

Ints countedFrom(int64_t from, int64_t count) {
  return Ints(llvm::map_range(counted(count), [from](int64_t i) { return from + i; }));
}

std::optional<Windows> Windows::of(Node &node, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> kernel,
                                   bool ceil) {
  const size_t rank = kernel.size();
  if (shape.size() < 3 || shape.size() - 2 != rank) {
    node.fail("slides a kernel of shape " + toString(kernel) + " over a tensor of shape " + toString(shape) +
              ", which should be [N, C, ...] with as many dimensions behind them");
    return std::nullopt;
  }
  auto isOutside = [](int64_t size) { return size < 1 || size > mostOfAttribute; };
  if (llvm::any_of(kernel, isOutside) || llvm::any_of(shape, [](int64_t size) { return size < 1; })) {
    node.fail("slides a kernel of shape " + toString(kernel) + " over a tensor of shape " + toString(shape));
    return std::nullopt;
  }
  const std::optional<Ints> strides = numbers(node, "strides", rank, 1, 1),
                            dilations = numbers(node, "dilations", rank, 1, 1),
                            pads = numbers(node, "pads", 2 * rank, 0, 0);
  if (!strides || !dilations || !pads)
    return std::nullopt;
  Windows windows{Ints(shape.drop_front(2)), Ints(kernel), *strides, *dilations, {}, {}, Ints(rank, 0)};
  windows.before.assign(pads->begin(), pads->begin() + rank);
  windows.after.assign(pads->begin() + rank, pads->end());

  const llvm::StringRef automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    padToSame(windows, automatic == "SAME_UPPER");
    return windows;
  }
  if (automatic == "VALID") {
    windows.before.assign(rank, 0);
    windows.after.assign(rank, 0);
  } else if (automatic != "NOTSET" && !automatic.empty()) {
    node.fail("pads by auto_pad '" + automatic + "'; ONNX has NOTSET, VALID, SAME_UPPER and SAME_LOWER");
    return std::nullopt;
  }
  if (!countWithin(windows, ceil)) {
    node.fail("slides a kernel of shape " + toString(kernel) + " over a tensor of shape " + toString(shape) +
              " with pads " + toString(*pads) + ", which is shorter than it");
    return std::nullopt;
  }
  return windows;
}

bool Windows::isPadded() const {
  for (size_t i = 0; i < rank(); ++i)
    if (before[i] > 0 || beyond(i) > 0)
      return true;
  return false;
}

bool Windows::arePatches() const {
  for (size_t i = 0; i < rank(); ++i)
    if ((counts[i] > 1 && strides[i] < kernel[i]) || (kernel[i] > 1 && dilations[i] > 1))
      return false;
  return !isPadded();
}

Value Windows::of(Emitter &emit, Value x) const { return emit.window(x, kernel, strides, dilations, before, counts); }

} // namespace kfuse::ir::onnx
