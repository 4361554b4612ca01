// What the products share whose weights stream through registers: cuda.gemv and cuda.matmul_stream.
#pragma once

#include "codegen/cuda/matmul/MatmulCost.h"
#include "codegen/cuda/matmul/MatmulPrinter.h"
#include "codegen/cuda/matmul/MatmulVariant.h"

namespace kfuse::codegen::cuda {

inline constexpr int64_t accessBytes = 16; ///< What a lane loads at a time.

/// Why the operand cannot be read in accesses along K, or "".
std::string whyNotStreamed(const MatmulProblem &problem, unsigned side, unsigned product);

/// The fields of Config that say how many columns' weights the L2 fetches before the kernel's turn, and by how many
/// blocks (device/matmul/streamed.cuh).
std::string fetchField(const Region &region, const MatmulProblem &problem, const ir::Target &target);

} // namespace kfuse::codegen::cuda
