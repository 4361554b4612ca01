// The source and the launch of a decode attention.
#pragma once

#include "codegen/cuda/attention/DecodeShape.h"

namespace kfuse::codegen::cuda {

/// The kernel of a region that decodeProblem() takes.
KernelPlan decodeKernel(const Region &region, const TileConfig &config, const ir::Target &target);

} // namespace kfuse::codegen::cuda
