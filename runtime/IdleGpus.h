// Which GPUs nobody else uses.
#pragma once

#include "runtime/Device.h"

#include <vector>

namespace kfuse::runtime {

/// Those of `gpus` on which no process runs, as NVIDIA's management library tells; all where it is not there.
std::vector<GpuFacts> idleOf(const std::vector<GpuFacts> &gpus);

} // namespace kfuse::runtime
