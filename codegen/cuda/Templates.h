// The kernel templates of the CUDA targets.
#pragma once

#include "codegen/cuda/attention/Templates.h"
#include "codegen/cuda/chain/Templates.h"
#include "codegen/cuda/elementwise/Templates.h"
#include "codegen/cuda/matmul/Templates.h"
#include "codegen/cuda/rows/Templates.h"

#include <span>

namespace kfuse::codegen::cuda {

/// Most specific first.
std::span<const KernelTemplate *const> templates();

} // namespace kfuse::codegen::cuda
