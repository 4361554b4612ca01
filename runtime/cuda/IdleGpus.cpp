#include "runtime/IdleGpus.h"

#include "runtime/cuda/Nvml.h"

#include <algorithm>

namespace kfuse::runtime {

std::vector<GpuFacts> idleOf(const std::vector<GpuFacts> &gpus) {
  const cuda::Nvml nvml;
  std::vector<GpuFacts> idle;
  std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(idle),
               [&](const GpuFacts &gpu) { return nvml.isIdle(gpu.id).value_or(true); });
  return idle;
}

} // namespace kfuse::runtime
