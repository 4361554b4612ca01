// Sums of windows on tensor cores, where images share the weights: a row of taps as a band of a matrix.
#pragma once

#include "codegen/cuda/rows/WindowProblem.h"

namespace kfuse::codegen::cuda {

/// What a problem is as products with bands.
struct WindowBands {
  ir::Scalar images, weights;                  ///< Loads, whose products are summed.
  llvm::SmallVector<unsigned, 4> sequenceDims; ///< Dimensions of results with one weight, but for strip and down.
  int64_t sequences = 1;
  int64_t before = 0, width = 0; ///< Positions ahead of a row's first, and that it has.
  int64_t rowStride = 0;         ///< Elements from one row of positions to the next.
  int64_t piece = 0;             ///< Elements of an aligned copy.

  /// Nothing where the windows are none, or not many enough.
  static std::optional<WindowBands> of(const WindowProblem &problem);
};

/// Configs have `rows` of results of a block, and `stages` of its ring.
std::vector<EstimatedConfig> bandConfigs(const Region &region, const WindowProblem &problem, const ir::Target &target);
KernelPlan bandKernel(const Region &region, const WindowProblem &problem, const TileConfig &config,
                      const ir::Target &target);

} // namespace kfuse::codegen::cuda
