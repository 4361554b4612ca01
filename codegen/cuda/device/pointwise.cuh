// The loop of pointwise kernels.
#pragma once

#include <kfuse/math.cuh>

namespace kfuse {

/// Every chunk of the domain once. A thread keeps the operands of `Config::unroll` chunks in flight
/// before it uses the first; neighbouring threads take neighbouring chunks.
template <class Config, class Body> __device__ __forceinline__ void forEachChunk(const Body &body) {
  using Index = typename Config::Index;
  constexpr Index step = Index(Config::threads) * Config::unroll;
  for (Index tile = Index(blockIdx.x) * step; tile < Config::chunks; tile += Index(gridDim.x) * step) {
    typename Body::Operands x[Config::unroll];
#pragma unroll
    for (int u = 0; u < Config::unroll; ++u)
      if (Index chunk = tile + u * Config::threads + Index(threadIdx.x); chunk < Config::chunks)
        body.load(x[u], chunk);
#pragma unroll
    for (int u = 0; u < Config::unroll; ++u)
      if (Index chunk = tile + u * Config::threads + Index(threadIdx.x); chunk < Config::chunks)
        body.apply(x[u], chunk);
  }
}

} // namespace kfuse
