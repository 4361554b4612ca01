// What the variants share that stream weights through registers: a block computes panels of 16 columns for all rows,
// and its warps share K (device/matmul/gemm_stream.cuh).
#pragma once

#include "codegen/cuda/matmul/MatmulProblem.h"

#include "llvm/Support/MathExtras.h"

namespace kfuse::codegen::cuda::streamed {

/// Each block reads all rows: at 32 they are most of what an SM loads, and 32 x 4096 x 4096 takes 12.6 us where tiles
/// take 10.3.
constexpr int64_t mostRows = 16;
constexpr int64_t epilogueVector = 4;
constexpr int64_t panelColumns = 16; ///< Columns of the result, on the instruction's long side.

inline int64_t threadsOf(const TileConfig &config) { return config["split"] * 32; }
/// Columns of all products in a block.
inline int64_t columnsOf(const MatmulProblem &problem, const TileConfig &config) {
  return config["panels"] * panelColumns * problem.count();
}
/// Rows as an instruction takes them.
inline int64_t rowsOf(const MatmulProblem &problem) {
  return static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(problem.M), 8));
}
/// The warps' partial sums.
inline int64_t sharedBytes(const MatmulProblem &problem, const TileConfig &config) {
  return config["split"] * rowsOf(problem) * (columnsOf(problem, config) + 4) * static_cast<int64_t>(sizeof(float));
}

} // namespace kfuse::codegen::cuda::streamed
