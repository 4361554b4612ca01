// How an index expression behaves on a chunk of neighbouring points, which decides vector accesses.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace kfuse::codegen::cuda {

/// On every chunk of `width` points along one dimension, from a multiple of `width` on, the value at
/// lane j is value(0) + stride * j, and value(0) is a multiple of `divisor`.
struct LaneForm {
  int64_t stride = 0;
  int64_t divisor = 1; ///< 0 for the constant 0, which everything divides.

  /// The largest power of two up to `limit` that divides value(0).
  int64_t alignment(int64_t limit) const;
};

/// The form of `expr` on chunks of `width` (a power of two) along dimension `dim`, when it has one:
/// (d0 * 768 + d1) has stride 1 and divisor 8 there for width 8; d1 mod 96 too, since no chunk wraps.
/// `isUniform(i)` tells whether symbol i is the same on a whole chunk.
std::optional<LaneForm> laneForm(mlir::AffineExpr expr, unsigned dim, int64_t width,
                                 llvm::function_ref<bool(unsigned)> isUniform);

} // namespace kfuse::codegen::cuda
