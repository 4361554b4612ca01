// cuBLASLt's matrix product as kernels to measure beside ours, opened with dlopen.
#pragma once

#include "runtime/Device.h"

#include <memory>
#include <vector>

namespace kfuse::tools {

/// `batches` products y[M,N] = x[M,K] w[N,K]^T that lie behind each other in each buffer.
struct Products {
  std::int64_t batches, M, N, K;
};

/// Products of operands of `type`, stored as `result`, with f32 accumulation (f32 operands: cut with `tf32`; 8-bit
/// floats: the faster one, of some 14 bits): every algorithm that the heuristic offers, its first choice first; of
/// several batches the strided ones, then those of one product, called once a batch. None where it has none: 8-bit
/// floats with sizes that 16 does not divide, or E5M2 by E5M2. Buffers: x, w, y; the workspace takes
/// `cublasWorkspaceBytes`. NoDevice without the library.
Result<std::vector<std::unique_ptr<runtime::LoadedKernel>>> cublasLtAlgorithms(DType type, DType result, bool tf32,
                                                                               const Products &products);

/// Calls each kernel once and drops those whose call fails. The device's error where one took it down.
Result<void> dropFailing(std::vector<std::unique_ptr<runtime::LoadedKernel>> &kernels, runtime::Device &device,
                         std::span<void *const> buffers, void *workspace);

inline constexpr std::size_t cublasWorkspaceBytes = 64 << 20;

} // namespace kfuse::tools
