// cuBLASLt's matrix product as a kernel to measure beside ours, opened with dlopen.
#pragma once

#include "runtime/Device.h"

#include <memory>

namespace kfuse::bench {

/// y[M,N] = x[M,K] w[N,K]^T with f32 accumulation, by the first algorithm its heuristic offers.
/// Buffers: x, w, y; the workspace takes `cublasWorkspaceBytes`.
Result<std::unique_ptr<runtime::LoadedKernel>> makeCublasLt(DType type, std::int64_t M, std::int64_t N, std::int64_t K);

inline constexpr std::size_t cublasWorkspaceBytes = 64 << 20;

} // namespace kfuse::bench
