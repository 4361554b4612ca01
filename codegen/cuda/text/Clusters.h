// Thread block clusters that a GPU holds.
#pragma once

#include "ir/Target.h"

#include <algorithm>
#include <cstdint>

namespace kfuse::codegen::cuda {

/// How many clusters of this size an H100 or H200 holds at a time with one block an SM: its groups of SMs are not all
/// whole (measured with cuOccupancyMaxActiveClusters: 66 of 2, 30 of 4, 15 of 8, 7 of 16). At least one.
inline std::int64_t clustersAtOnce(std::int64_t blocks, const ir::Target &target) {
  return std::max<std::int64_t>(1, (blocks >= 4 ? target.multiprocessors * 10 / 11 : target.multiprocessors) / blocks);
}

} // namespace kfuse::codegen::cuda
