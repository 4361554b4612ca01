// The source and the launch of a chain.
#pragma once

#include "codegen/cuda/chain/ChainShape.h"

namespace kfuse::codegen::cuda {

Result<KernelPlan> chainKernel(const Region &region, const ChainProblem &chain, const TileConfig &config,
                               const ir::Target &target);

} // namespace kfuse::codegen::cuda
