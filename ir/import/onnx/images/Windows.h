// How a kernel slides over the spatial dimensions of a tensor [N, C, S1, ..., Sk].
#pragma once

#include "ir/import/onnx/node/Node.h"

namespace kfuse::ir::onnx {

/// Sizes of convolutions and pools, one number a spatial dimension. A window's element j of output o is that at
/// o * stride + j * dilation - before.
struct Windows {
  Ints sizes; ///< The operand's.
  Ints kernel, strides, dilations, before, after;
  Ints counts; ///< Windows, so the result's sizes.

  /// From the node's attributes, for an operand [N, C, S1, ..., Sk] of this shape and a kernel of these sizes; nothing,
  /// and the node has failed, where they are no windows. With `ceil` the last window may reach beyond the end.
  static std::optional<Windows> of(Node &node, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> kernel,
                                   bool ceil = false);

  size_t rank() const { return kernel.size(); }
  /// Elements from a window's first to its last.
  int64_t reach(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
  /// Elements that the last window reads behind the operand's end.
  int64_t beyond(size_t i) const { return (counts[i] - 1) * strides[i] + reach(i) - before[i] - sizes[i]; }
  /// Whether some window reads outside the operand.
  bool isPadded() const;
  /// Whether the windows lie side by side inside the operand: patches.
  bool arePatches() const;
  int64_t positions() const { return elementsIn(counts); }
  int64_t taps() const { return elementsIn(kernel); }

  /// [..., S1, ..., Sk] -> [..., K1, ..., Kk, O1, ..., Ok]; 0 outside the operand.
  mlir::Value of(Emitter &emit, mlir::Value x) const;
};

/// Dimensions `from`, ..., `from + count - 1`.
Ints countedFrom(int64_t from, int64_t count);

} // namespace kfuse::ir::onnx
