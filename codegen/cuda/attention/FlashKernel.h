// The source and the launch of a flash attention.
#pragma once

#include "codegen/cuda/attention/FlashShape.h"

namespace kfuse::codegen::cuda {

/// The kernel of a region that flashProblem() takes.
KernelPlan flashKernel(const Region &region, const TileConfig &config, const ir::Target &target);

} // namespace kfuse::codegen::cuda
