// A warp's part of a block tile: fragments from shared memory, products on tensor cores.
#pragma once

#include <kfuse/copy.cuh>

namespace kfuse {

__device__ __forceinline__ void multiplyAdd(bf16, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mmaBf16(c, a, b0, b1);
}
__device__ __forceinline__ void multiplyAdd(f16, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mmaF16(c, a, b0, b1);
}

/// f32, cut behind 10 bits of mantissa: 8 of K.
__device__ __forceinline__ void multiplyAdd(float, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mmaTf32(c, a, b0, b1);
}

/// Fragments of 16 rows of A or 16 columns of B by 16 of K (8 of 32 bits, whose words lie as pairs of 16 bits do),
/// `count` of them side by side from `first` on.
///
/// ldmatrix wants each 8x8 matrix as eight rows of 16 bytes. With K contiguous in memory those are
/// rows of A or columns of B; else matrices lie transposed and are transposed back as they load. A's four matrices are
/// ordered (rows 0, k 0), (rows 8, k 0), (rows 0, k 8), (rows 8, k 8); B's are (columns 0, k 0),
/// (columns 0, k 8), (columns 8, k 0), (columns 8, k 8): two n8 fragments.
template <class Copy, bool contiguousK, bool isA, int count> struct Fragments {
  using Tile = typename Copy::Tile;
  unsigned lane; ///< Offset of this lane's row of the first matrices.

  __device__ __forceinline__ explicit Fragments(int first) {
    int l = threadIdx.x % 32, low = l % 8, high = l / 16 % 2, middle = l / 8 % 2;
    int across = isA ? middle : high, along = isA ? high : middle; // Which half of the 16 rows and of K.
    lane =
        contiguousK ? Tile::offset(first + low + across * 8, along) : Tile::offset(low + along * 8, first / 8 + across);
  }

  /// Loads those at `k` (a multiple of 16) of the tile at shared address `tile`.
  __device__ __forceinline__ void load(unsigned (*fragments)[4], unsigned tile, int k) const {
#pragma unroll
    for (int i = 0; i < count; ++i)
      if constexpr (contiguousK)
        loadMatrices(fragments[i], tile + Tile::moved(lane, i * 16, k / 8));
      else
        loadMatricesTransposed(fragments[i], tile + Tile::moved(lane, k, i * 2));
  }
};

} // namespace kfuse
