// Sums of tiles that blocks of several clusters share (tile_walk.cuh), on their way through memory.
#pragma once

#include <kfuse/ptx_sm90.cuh>
#include <kfuse/types.cuh>

namespace kfuse {

/// What a block knows of the sums that blocks of other clusters have of its tile: a place of every warp's for them, and
/// a flag that says they are there. Flags are zero at entry and exit.
struct PartialSums {
  unsigned *flags; ///< [block][warp]
  float *sums;     ///< [block][warp][four sums][lane][4]

  /// Leaves this warp's sums to the cluster that finishes the tile.
  template <int warps, int blocks, int sumCount>
  __device__ __forceinline__ void put(const float (&from)[blocks][sumCount], int block, int warp) const {
    Vector<float, 4> *to = place<warps, blocks * sumCount>(block, warp);
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int j = 0; j < sumCount; j += 4)
        to[(i * sumCount + j) * 8] = {from[i][j], from[i][j + 1], from[i][j + 2], from[i][j + 3]};
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      setFlag(flags + block * warps + warp);
  }

  /// Adds what the same warp of block `block` has left, as soon as it has.
  template <int warps, int blocks, int sumCount>
  __device__ __forceinline__ void add(float (&to)[blocks][sumCount], int block, int warp) const {
    if (threadIdx.x % 32 == 0) {
      unsigned *flag = flags + block * warps + warp;
      while (loadAcquire(flag) == 0) {
      }
      *flag = 0;
    }
    __syncwarp();
    const Vector<float, 4> *from = place<warps, blocks * sumCount>(block, warp);
    // So many are on their way together, and no more: beside the sums they take registers.
    constexpr int all = blocks * sumCount / 4, together = 8;
#pragma unroll
    for (int first = 0; first < all; first += together) {
      float parts[together][4];
#pragma unroll
      for (int u = 0; u < together && first + u < all; ++u)
        loadShared(parts[u], from + (first + u) * 32);
#pragma unroll
      for (int u = 0; u < together && first + u < all; ++u)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int at = (first + u) * 4 + j;
          to[at / sumCount][at % sumCount] += parts[u][j];
        }
    }
  }

private:
  template <int warps, int count> __device__ __forceinline__ Vector<float, 4> *place(int block, int warp) const {
    static_assert(count % 4 == 0);
    return reinterpret_cast<Vector<float, 4> *>(sums) + (block * warps + warp) * (count * 8) + threadIdx.x % 32;
  }
};

} // namespace kfuse
