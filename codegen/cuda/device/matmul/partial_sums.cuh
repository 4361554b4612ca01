// Partial sums of tiles that clusters share by stream-K (tile_walk.cuh), on their way through memory.
#pragma once

#include <kfuse/ptx_sm90.cuh>
#include <kfuse/types.cuh>

namespace kfuse {

/// A place for the partial sums of each segment and of each of its warps, and a flag that says they are there. Flags
/// are zero at entry and exit.
struct PartialSums {
  static constexpr int warps = 4; ///< The warpgroup's that has a tile.
  unsigned *flags;                ///< [place][warp]
  float *sums;                    ///< [place][warp][four sums][lane][4]

  /// Leaves this warp's partial sums to the cluster that finishes the tile.
  template <int blocks, int accumulatorCount>
  __device__ __forceinline__ void put(const float (&from)[blocks][accumulatorCount], int place, int warp) const {
    Vector<float, 4> *to = at<blocks * accumulatorCount>(place, warp);
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int j = 0; j < accumulatorCount; j += 4)
        to[(i * accumulatorCount + j) * 8] = {from[i][j], from[i][j + 1], from[i][j + 2], from[i][j + 3]};
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      setFlag(flags + place * warps + warp);
  }

  /// Begins with what the same warp has left at a place, as soon as it has.
  template <int blocks, int accumulatorCount>
  __device__ __forceinline__ void take(float (&to)[blocks][accumulatorCount], int place, int warp) const {
    await(flags + place * warps + warp);
    const Vector<float, 4> *from = at<blocks * accumulatorCount>(place, warp);
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int j = 0; j < accumulatorCount; j += 4) {
        float partial[4];
        loadRelaxed(partial, from + (i * accumulatorCount + j) * 8);
#pragma unroll
        for (int u = 0; u < 4; ++u)
          to[i][j + u] = partial[u];
      }
  }

  /// Adds what the same warp has left at a place, as soon as it has. Four loads of four sums are in flight at once,
  /// beside the accumulators.
  template <int blocks, int accumulatorCount>
  __device__ __forceinline__ void add(float (&to)[blocks][accumulatorCount], int place, int warp) const {
    constexpr int together = 4;
    await(flags + place * warps + warp);
    const Vector<float, 4> *from = at<blocks * accumulatorCount>(place, warp);
    constexpr int all = blocks * accumulatorCount / 4;
#pragma unroll
    for (int first = 0; first < all; first += together) {
      float partials[together][4];
#pragma unroll
      for (int u = 0; u < together && first + u < all; ++u)
        loadRelaxed(partials[u], from + (first + u) * 32);
#pragma unroll
      for (int u = 0; u < together && first + u < all; ++u)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int sum = (first + u) * 4 + j;
          to[sum / accumulatorCount][sum % accumulatorCount] += partials[u][j];
        }
    }
  }

private:
  /// Waits, with all of a warp, until `flag` is set, and clears it.
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
