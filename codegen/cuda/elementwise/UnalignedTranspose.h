// A transposition whose rows begin anywhere, for device/elementwise/transpose_unaligned.cuh.
#pragma once

#include "codegen/KernelPlan.h"
#include "codegen/KernelTemplate.h"
#include "codegen/LinearGraph.h"

#include <optional>

namespace kfuse::codegen::cuda {

/// One operand that is dense along `down` and one result that is dense along `across`, of elements as wide, 2 or 4
/// bytes: their rows lie at equal distances, and a batch begins at a multiple of 16 bytes.
struct UnalignedTranspose {
  ir::Scalar load;
  unsigned down = 0, across = 0;
  int64_t vector = 1;                       ///< Elements of 16 bytes.
  int64_t sourcePitch = 1, resultPitch = 1; ///< From row to row, in elements.
  mlir::AffineExpr sourceBase;              ///< Where a batch begins.

  /// The transposition that `graph` is, if it is one.
  static std::optional<UnalignedTranspose> of(const LinearGraph &graph, unsigned down, unsigned across);

  /// Points of a block's tile along `down` and `across`, of a config {"chunks_down", "in_lines", "lanes_across",
  /// "warps"}.
  std::pair<int64_t, int64_t> tileOf(const TileConfig &config) const;
  int64_t sharedBytes(const TileConfig &config) const;
  KernelPlan plan(const Region &region, const LinearGraph &graph, const TileConfig &config,
                  const ir::Target &target) const;
};

} // namespace kfuse::codegen::cuda
