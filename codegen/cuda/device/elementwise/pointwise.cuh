// The loop of pointwise kernels.
#pragma once

#include <kfuse/math.cuh>

namespace kfuse {

/// Every chunk of the domain once. A thread keeps the operands of `Config::unroll` chunks in flight before it uses the
/// first; neighbouring threads take neighbouring chunks. This is block `block` of `blocks` that share the domain. Blocks
/// are as many as there is work, so that the loop runs once; without it ptxas takes 74 registers instead of 48 for a
/// rotary of two chunks of eight.
template <class Config, class Body>
__device__ __forceinline__ void forEachChunk(const Body &body, unsigned block = blockIdx.x,
                                             unsigned blocks = gridDim.x) {
  using Index = typename Config::Index;
  constexpr Index step = Index(Config::threads) * Config::unroll;
  for (Index tile = Index(block) * step; tile < Config::chunks; tile += Index(blocks) * step) {
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
