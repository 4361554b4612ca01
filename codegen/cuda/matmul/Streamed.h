// What the products share whose weights stream through registers: cuda.gemv, cuda.matmul_stream and
// cuda.matmul_low_bits.
#pragma once

#include "codegen/cuda/matmul/MatmulCost.h"
#include "codegen/cuda/matmul/MatmulPrinter.h"
#include "codegen/cuda/matmul/MatmulVariant.h"

namespace kfuse::codegen::cuda {

inline constexpr int64_t accessBytes = 16; ///< What a lane loads at a time.

/// Why the operand cannot be read in accesses along K, or "".
std::string whyNotStreamed(const MatmulProblem &problem, unsigned side, unsigned product);

/// What a column of a product's weights takes in memory, as they are multiplied.
int64_t columnBytes(const MatmulProblem &problem);

/// The fields of Config that say how many columns' weights, of `columnBytes` each, the L2 fetches before the kernel's
/// turn, and by how many blocks (device/matmul/streamed.cuh).
std::string fetchField(const Region &region, const MatmulProblem &problem, int64_t columnBytes,
                       const ir::Target &target);

} // namespace kfuse::codegen::cuda
