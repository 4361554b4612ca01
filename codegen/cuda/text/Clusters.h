// Thread block clusters that a GPU holds, and grids of so many.
#pragma once

#include "codegen/KernelPlan.h"
#include "ir/Target.h"

#include <algorithm>
#include <cstdint>

namespace kfuse::codegen::cuda {

/// How many clusters of this size an H100 or H200 holds at a time with one block an SM: its groups of SMs are not all
/// whole (measured with cuOccupancyMaxActiveClusters: 66 of 2, 30 of 4, 15 of 8, 7 of 16). At least one.
inline std::int64_t clustersAtOnce(std::int64_t blocks, const ir::Target &target) {
  return std::max<std::int64_t>(1, (blocks >= 4 ? target.multiprocessors * 10 / 11 : target.multiprocessors) / blocks);
}

/// The grid has a block for each piece of work, and at most as many as the device holds: they go on to further work by
/// gridDim.x, so that another number of them is right on a device with other multiprocessors.
inline void setPersistentGrid(Launch &launch, std::int64_t workBlocks, std::int64_t heldBlocks,
                              const ir::Target &target) {
  workBlocks = std::clamp<std::int64_t>(workBlocks, 1, INT32_MAX);
  launch.grid = {static_cast<std::uint32_t>(std::min(workBlocks, heldBlocks)), 1, 1};
  launch.residency = {static_cast<std::uint32_t>(target.multiprocessors), static_cast<std::uint32_t>(heldBlocks),
                      static_cast<std::uint32_t>(workBlocks)};
}

/// Blocks that wait for each other (stream-K): those of lower numbers start first, but CUDA does not promise that, so
/// the device must hold them all at once.
inline void setWaitingGrid(Launch &launch, std::int64_t blocks, const ir::Target &target) {
  launch.grid = {static_cast<std::uint32_t>(blocks), 1, 1};
  launch.residency = {.multiprocessors = static_cast<std::uint32_t>(target.multiprocessors),
                      .heldBlocks = static_cast<std::uint32_t>(blocks)};
}

} // namespace kfuse::codegen::cuda
