// What a kernel needs whose blocks leave partial results to the one of them that arrives last.
#pragma once

#include "codegen/KernelPlan.h"

#include "llvm/Support/MathExtras.h"

namespace kfuse::codegen::cuda {

/// Adds a counter of arrivals for each of `groups` groups of blocks, and `partialBytes` behind them for partial
/// results, to the plan's workspace, and both addresses to the launch's arguments.
inline void addLastBlock(KernelPlan &plan, Launch &launch, std::int64_t groups, std::int64_t partialBytes) {
  plan.zeroedBytes = llvm::alignTo(static_cast<std::uint64_t>(groups) * sizeof(std::uint32_t), zeroedGranule);
  plan.workspaceBytes = plan.zeroedBytes + static_cast<std::uint64_t>(partialBytes);
  launch.args.push_back({KernelArg::Kind::Workspace, 0});
  launch.args.push_back({KernelArg::Kind::Workspace, plan.zeroedBytes});
}

} // namespace kfuse::codegen::cuda
