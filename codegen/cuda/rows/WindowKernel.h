// The text of one reduction of windows under one config.
#pragma once

#include "codegen/cuda/rows/WindowProblem.h"

namespace kfuse::codegen::cuda {

KernelPlan windowKernel(const Region &region, const WindowProblem &problem, const TileConfig &config,
                        const ir::Target &target);

} // namespace kfuse::codegen::cuda
