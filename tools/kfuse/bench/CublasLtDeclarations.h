// What kfuse takes from cublasLt.h of CUDA 12 and 13, so that it builds without the toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kfuse::tools::cublaslt {

constexpr int success = 0, invalidValue = 7, executionFailed = 13, notSupported = 15;  ///< cublasStatus_t.
constexpr int compute32F = 68, computeTf32 = 77;                                       ///< cublasComputeType_t.
constexpr int real32F = 0, real16F = 2, real16BF = 14, real8E4M3 = 28, real8E5M2 = 29; ///< cudaDataType_t.
constexpr int layoutBatchCount = 5, layoutBatchOffset = 6, descTransA = 3, transposed = 1, descFastAccumulation = 25,
              preferWorkspaceBytes = 1; ///< Attributes and their values.

struct HeuristicResult {
  std::uint64_t algorithm[8];
  std::size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};

} // namespace kfuse::tools::cublaslt
