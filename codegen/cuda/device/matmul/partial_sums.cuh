// Sums of tiles that blocks of several clusters share (tile_walk.cuh), on their way through memory.
#pragma once

#include <kfuse/ptx_sm90.cuh>
#include <kfuse/types.cuh>

namespace kfuse {

/// What a block knows of the sums of pieces that other clusters have computed of its tile: a place for each of a
/// piece's warps, and a flag that says they are there. Flags are zero at entry and exit.
struct PartialSums {
  static constexpr int warps = 4; ///< Of the warpgroup that has a tile.
  unsigned *flags;                ///< [place][warp]
  float *sums;                    ///< [place][warp][four sums][lane][4]

  /// Leaves this warp's sums to the cluster that finishes the tile.
  template <int blocks, int sumCount>
  __device__ __forceinline__ void put(const float (&from)[blocks][sumCount], int place, int warp) const {
    Vector<float, 4> *to = at<blocks * sumCount>(place, warp);
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int j = 0; j < sumCount; j += 4)
        to[(i * sumCount + j) * 8] = {from[i][j], from[i][j + 1], from[i][j + 2], from[i][j + 3]};
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      setFlag(flags + place * warps + warp);
  }

  /// Begins with what the same warp has left at a place, as soon as it has.
  template <int blocks, int sumCount>
  __device__ __forceinline__ void take(float (&to)[blocks][sumCount], int place, int warp) const {
    await(flags + place * warps + warp);
    const Vector<float, 4> *from = at<blocks * sumCount>(place, warp);
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int j = 0; j < sumCount; j += 4) {
        float part[4];
        loadShared(part, from + (i * sumCount + j) * 8);
#pragma unroll
        for (int u = 0; u < 4; ++u)
          to[i][j + u] = part[u];
      }
  }

  /// Adds what the same warp has left at a place, as soon as it has. Four loads of four sums are on their way at
  /// once, beside the sums.
  template <int blocks, int sumCount>
  __device__ __forceinline__ void add(float (&to)[blocks][sumCount], int place, int warp) const {
    constexpr int together = 4;
    await(flags + place * warps + warp);
    const Vector<float, 4> *from = at<blocks * sumCount>(place, warp);
    constexpr int all = blocks * sumCount / 4;
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
          const int sum = (first + u) * 4 + j;
          to[sum / sumCount][sum % sumCount] += parts[u][j];
        }
    }
  }

private:
  /// Until `flag` is set, for all of a warp; it is zero again then.
  static __device__ __forceinline__ void await(unsigned *flag) {
    if (threadIdx.x % 32 == 0) {
      while (loadAcquire(flag) == 0) {
      }
      *flag = 0;
    }
    __syncwarp();
  }
  template <int count> __device__ __forceinline__ Vector<float, 4> *at(int place, int warp) const {
    static_assert(count % 4 == 0);
    return reinterpret_cast<Vector<float, 4> *>(sums) + (place * warps + warp) * (count * 8) + threadIdx.x % 32;
  }
};

} // namespace kfuse
