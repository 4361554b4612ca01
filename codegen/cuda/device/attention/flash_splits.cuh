// Attention of few query rows whose keys are split over blocks.
#pragma once

#include <kfuse/ptx.cuh>

namespace kfuse {

/// blockIdx.x is a tile of query rows, blockIdx.y the split of its keys. Each block that has some leaves in memory what
/// its lanes hold; the one that is done last adds what all left, in the order of the splits.
template <class Rows, int splits, int threads> struct FlashSplits {
  unsigned *arrivals; ///< One counter for each tile of rows, zero before and after.
  float *partials;

  static constexpr int floats = Rows::heldFloats * threads;

  /// Whether `rows` now have what all blocks found: the first `live`.
  __device__ __forceinline__ bool gather(Rows &rows, int live) const {
    __shared__ unsigned before;
    float *const ofTile = partials + size_t(blockIdx.x) * splits * floats + threadIdx.x;
    rows.leave(ofTile + size_t(blockIdx.y) * floats, threads);
    __syncthreads();
    if (threadIdx.x == 0)
      before = countArrival(arrivals + blockIdx.x);
    __syncthreads();
    if (before != live - 1)
      return false;
    rows.clear();
#pragma unroll 1
    for (int split = 0; split < live; ++split)
      rows.add(ofTile + size_t(split) * floats, threads);
    if (threadIdx.x == 0)
      arrivals[blockIdx.x] = 0;
    return true;
  }
};

} // namespace kfuse
