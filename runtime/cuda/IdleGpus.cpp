#include "runtime/IdleGpus.h"

#include "runtime/cuda/Nvml.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <tuple>

namespace kfuse::runtime {

LoadOf currentLoads() {
  return [nvml = std::make_shared<cuda::Nvml>()](const GpuFacts &gpu) { return nvml->loadOf(gpu.id); };
}

std::vector<GpuFacts> idleOf(const std::vector<GpuFacts> &gpus, const LoadOf &loadOf) {
  std::vector<GpuFacts> idle;
  std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(idle),
               [&](const GpuFacts &gpu) { return loadOf(gpu).value_or(GpuLoad()).processes == 0; });
  return idle;
}

const GpuFacts &leastBusyOf(const std::vector<GpuFacts> &gpus, const LoadOf &loadOf) {
  auto rank = [&](const GpuFacts &gpu) {
    const GpuLoad load = loadOf(gpu).value_or(GpuLoad());
    return std::tuple(load.percent, load.processes);
  };
  return *std::min_element(gpus.begin(), gpus.end(),
                           [&](const GpuFacts &a, const GpuFacts &b) { return rank(a) < rank(b); });
}

} // namespace kfuse::runtime
