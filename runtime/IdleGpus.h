// Which GPUs nobody else uses.
#pragma once

#include "runtime/Device.h"

#include <functional>
#include <optional>
#include <vector>

namespace kfuse::runtime {

/// What a GPU has to do at the moment.
struct GpuLoad {
  unsigned processes = 0; ///< How many compute on it.
  unsigned percent = 0;   ///< The share of the last second or less in which kernels ran.
};

/// Nothing for a GPU that cannot be asked.
using LoadOf = std::function<std::optional<GpuLoad>(const GpuFacts &)>;

/// What NVIDIA's management library tells, which is opened for it (20 ms).
LoadOf currentLoads();

/// Those on which no process runs; one that cannot be asked counts as idle.
std::vector<GpuFacts> idleOf(const std::vector<GpuFacts> &gpus, const LoadOf &loadOf);

/// The one with the least to do, the first of equal ones; `gpus` holds one at least.
const GpuFacts &leastBusyOf(const std::vector<GpuFacts> &gpus, const LoadOf &loadOf);

} // namespace kfuse::runtime
