#include "runtime/Residency.h"

#include <algorithm>

namespace kfuse::runtime {
namespace {

using codegen::Launch;
using codegen::Residency;

/// In proportion to the multiprocessors, in whole clusters, at least one.
std::uint32_t blocksOn(const Launch &launch, std::uint32_t multiprocessors) {
  const Residency &residency = launch.residency;
  const std::uint64_t held = std::uint64_t{residency.heldBlocks} * multiprocessors / residency.multiprocessors;
  const std::uint64_t whole = std::max<std::uint64_t>(1, held / launch.cluster[0]) * launch.cluster[0];
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(whole, residency.workBlocks));
}

} // namespace

codegen::KernelPlan planOn(codegen::KernelPlan plan, int multiprocessors) {
  for (Launch &launch : plan.launches)
    if (launch.residency.isAdaptable() && launch.residency.multiprocessors != std::uint32_t(multiprocessors))
      launch.grid[0] = blocksOn(launch, static_cast<std::uint32_t>(multiprocessors));
  return plan;
}

int neededMultiprocessors(const Program &program) {
  std::uint32_t needed = 0;
  for (const ProgramKernel &kernel : program.kernels)
    for (const Launch &launch : kernel.plan.launches)
      if (!launch.residency.isAdaptable())
        needed = std::max(needed, launch.residency.multiprocessors);
  return static_cast<int>(needed);
}

} // namespace kfuse::runtime
