// Attention of many query rows without tensor cores, in f32: of f32, which they would round, and of heads whose
// elements are no whole chunks of 16 bytes.
#pragma once

#include <kfuse/flash_rows.cuh>

namespace kfuse {

/// A block has `tileRows` query rows of one head, of which each warp has its own, and takes their keys and values tile
/// by tile, the last first, as f32 in shared memory. Lanes hold scores and accumulators as they do for mma (FlashRows).
/// Several blocks of an SM hide each other's loads.
template <class Config, class Body> struct FlashScalar {
  using Index = typename Config::Index;
  static constexpr int tileRows = Config::tileRows, tileKeys = Config::tileKeys, warps = Config::warps;
  static constexpr int threads = warps * 32, warpRows = tileRows / warps, fragments = warpRows / 16;
  static_assert(warpRows % 16 == 0 && tileKeys % 16 == 0);
  static constexpr int keyColumns = (Config::keySize + 3) / 4 * 4, valueColumns = (Config::valueSize + 7) / 8 * 8;
  /// Rows that four lanes read at once, two apart, start in different banks.
  static constexpr int keyStride = keyColumns + 4, valueStride = valueColumns + 4;
  using Rows = FlashRows<Config, Body, fragments, valueColumns>;

  const Body &body;
  const FlashBlock<Config, Body> block{body, blockIdx.x};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float *const queries = reinterpret_cast<float *>(dynamicShared()), *const keys = queries + tileRows * keyStride,
               *const values = keys + tileKeys * keyStride;
  Rows rows{body, block, block.firstRow + warp *warpRows};

  /// `count` rows of `columns` elements, zeros where there is none.
  template <int count, int columns, int stride, int size, class Read>
  static __device__ __forceinline__ void fill(float *to, Index first, Index end, Read read) {
#pragma unroll 4
    for (int i = threadIdx.x; i < count * columns; i += threads) {
      const int row = i / columns, d = i % columns;
      to[row * stride + d] = first + row < end && d < size ? read(first + row, d) : 0.0f;
    }
  }

  __device__ __forceinline__ void multiplyKeys(typename Rows::Products &products) const {
    const float *query = queries + (warp * warpRows + lane / 4) * keyStride, *key = keys + lane % 4 * 2 * keyStride;
#pragma unroll 1
    for (int d = 0; d < keyColumns; d += 4) {
      Vector<float, 4> a[fragments][2];
#pragma unroll
      for (int f = 0; f < fragments; ++f)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          a[f][half] = loadVector<4, 4>(query + (f * 16 + half * 8) * keyStride + d);
#pragma unroll
      for (int n = 0; n < tileKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const Vector<float, 4> b = loadVector<4, 4>(key + (n * 8 + i) * keyStride + d);
#pragma unroll
          for (int f = 0; f < fragments; ++f)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
              for (int j = 0; j < 4; ++j)
                products[f][n * 4 + half * 2 + i] = fmaf(a[f][half][j], b[j], products[f][n * 4 + half * 2 + i]);
        }
    }
  }

  /// Four lanes have the weights of a row, each those of other keys, and accumulators of other columns: each goes
  /// through all keys, its own first.
  __device__ __forceinline__ void multiplyValues(const typename Rows::Products &weights) {
#pragma unroll
    for (int n = 0; n < tileKeys / 8; ++n)
#pragma unroll
      for (int other = 0; other < 4; ++other)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float weight[fragments][2];
#pragma unroll
          for (int f = 0; f < fragments; ++f)
#pragma unroll
            for (int half = 0; half < 2; ++half)
              weight[f][half] = shuffleXor(weights[f][n * 4 + half * 2 + i], other);
          const float *value = values + (n * 8 + (lane % 4 ^ other) * 2 + i) * valueStride + lane % 4 * 2;
#pragma unroll
          for (int c = 0; c < valueColumns / 8; ++c) {
            const Vector<float, 2> b = loadVector<2, 2>(value + c * 8);
#pragma unroll
            for (int f = 0; f < fragments; ++f)
#pragma unroll
              for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int j = 0; j < 2; ++j)
                  rows.accumulators[f][c * 4 + half * 2 + j] =
                      fmaf(weight[f][half], b[j], rows.accumulators[f][c * 4 + half * 2 + j]);
          }
        }
  }

  __device__ __forceinline__ explicit FlashScalar(const Body &body) : body(body) {}
  __device__ __forceinline__ void run() {
    mark(Moment::starts);
    fill<tileRows, keyColumns, keyStride, Config::keySize>(
        queries, block.firstRow, Config::rows, [&](Index row, int d) { return body.query(block.batch, row, d); });
    mark(Moment::hasTile);
#pragma unroll 1
    for (Index tile = block.endTile - 1; tile >= block.beginTile; --tile) {
      const Index first = tile * tileKeys;
      __syncthreads(); // All have read the tile before.
      fill<tileKeys, keyColumns, keyStride, Config::keySize>(
          keys, first, Config::keys, [&](Index key, int d) { return body.key(block.batch, key, d); });
      fill<tileKeys, valueColumns, valueStride, Config::valueSize>(
          values, first, Config::keys, [&](Index key, int d) { return body.value(block.batch, key, d); });
      __syncthreads();
      if (!rows.sees(tile))
        continue;
      typename Rows::Products products = {};
      typename Rows::Factors factors;
      multiplyKeys(products);
      rows.template weigh<true>(products, tile, factors);
      rows.template rescale<true>(factors);
      multiplyValues(products);
    }
    mark(Moment::hasAccumulators);
    rows.storeEach();
    mark(Moment::ends);
  }
};

} // namespace kfuse
