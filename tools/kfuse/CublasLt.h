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
/// several batches the strided ones, then those of one product, called once a batch. Buffers: x, w, y; the workspace
/// takes `cublasWorkspaceBytes`. NoDevice without the library.
Result<std::vector<std::unique_ptr<runtime::LoadedKernel>>> cublasLtAlgorithms(DType type, DType result, bool tf32,
                                                                               const Products &products);

inline constexpr std::size_t cublasWorkspaceBytes = 64 << 20;

} // namespace kfuse::tools
