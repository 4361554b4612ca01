// OpenBLAS's f32 matrix product as a kernel to measure beside ours, opened with dlopen.
#pragma once

#include "runtime/Device.h"

#include <memory>
#include <string>

namespace kfuse::bench {

/// y[M,N] = x[M,K] w in f32 on `threads` threads; w is stored [N,K] if `transposed`. Buffers: x, w, y.
/// NoDevice where there is no libopenblas.so.0.
Result<std::unique_ptr<runtime::LoadedKernel>> makeOpenBlas(std::int64_t M, std::int64_t N, std::int64_t K,
                                                            bool transposed, int threads);

/// Its version and the processor it took this one for.
std::string describeOpenBlas();

} // namespace kfuse::bench
