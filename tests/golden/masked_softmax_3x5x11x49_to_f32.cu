// where + cast + softmax
// func.func @f(%arg0: tensor<3x5x11x49xbf16>, %arg1: tensor<11x49xi1>) -> tensor<3x5x11x49xf32> {
//   %0 = kfuse.constant dense<0xFF80> : tensor<bf16>
//   %1 = kfuse.where %arg1, %arg0, %0 : (tensor<11x49xi1>, tensor<3x5x11x49xbf16>, tensor<bf16>) -> tensor<3x5x11x49xbf16>
//   %2 = kfuse.cast %1 : (tensor<3x5x11x49xbf16>) -> tensor<3x5x11x49xf32>
//   %3 = kfuse.softmax %2 : (tensor<3x5x11x49xf32>) -> tensor<3x5x11x49xf32>
//   return %3 : tensor<3x5x11x49xf32>
// }
// config: cluster=1,rows=16,rows_each=1,storage=0,threads=8,vector=1
// bound on sm_90a: 0.01 us; 0.01 us for 0.049 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/row_tile.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int threads = 8, rows = 16, vector = 1; // Threads of a row, rows of a block, columns of a chunk.
  static constexpr int cluster = 1; // Blocks of a row.
  static constexpr int unroll = 4; // Chunks in flight.
  static constexpr bool unrollAll = false, stream = false;
  static constexpr Index rowCount = 165, columns = 49;
};

struct Body {
  HeldRow<bf16, Index> in0;
  const bool *in1;
  HeldRow<float, Index> out0;

  __device__ __forceinline__ void operator()(Row<Config> &row) const {
    const Index d0 = row.index / 11u, d1 = row.index % 11u;

    Partial<Maximum, float, 1> a4;
    struct Pass0 {
      Vector<bool, 1> v0;
      Vector<bf16, 1> v1;
    };
    auto loadPass0 = [&](Pass0 &w, Index d2) {
      w.v0 = loadVector<1, 1>(in1 + (d1 * 49 + d2));
      w.v1 = loadVector<1, 1>(in0 + (d0 * 539 + d1 * 49 + d2));
    };
    row.forEach(row.fetch<Pass0>(loadPass0), loadPass0, [&](const Pass0 &w, int i, Index d2) {
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const bool v0 = decode(w.v0[j]);
        const float v1 = decode(w.v1[j]);
        const float v3 = v0 ? v1 : (-infinity); // where
        a4.add(j, v3);
      }
    });
    const float v4 = row.reduce<4>(a4); // reduce max

    Partial<Sum, float, 1> a7;
    struct Pass1 {
      Vector<bool, 1> v0;
      Vector<bf16, 1> v1;
    };
    auto loadPass1 = [&](Pass1 &w, Index d2) {
      w.v0 = loadVector<1, 1>(in1 + (d1 * 49 + d2));
      w.v1 = loadVector<1, 1>(in0 + (d0 * 539 + d1 * 49 + d2));
    };
    row.forEach(row.fetch<Pass1>(loadPass1), loadPass1, [&](const Pass1 &w, int i, Index d2) {
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const bool v0 = decode(w.v0[j]);
        const float v1 = decode(w.v1[j]);
        const float v3 = v0 ? v1 : (-infinity); // where
        const float v5 = v3 - v4; // sub
        const float v6 = exponential(v5); // exp
        a7.add(j, v6);
      }
    });
    const float v7 = row.reduce<7>(a7); // reduce sum

    Vector<float, 1> y0;
    const float r7 = reciprocal(v7);
    struct Pass2 {
      Vector<bool, 1> v0;
      Vector<bf16, 1> v1;
    };
    auto loadPass2 = [&](Pass2 &w, Index d2) {
      w.v0 = loadVector<1, 1>(in1 + (d1 * 49 + d2));
      w.v1 = loadVector<1, 1>(in0 + (d0 * 539 + d1 * 49 + d2));
    };
    row.forEach(row.fetch<Pass2>(loadPass2), loadPass2, [&](const Pass2 &w, int i, Index d2) {
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const bool v0 = decode(w.v0[j]);
        const float v1 = decode(w.v1[j]);
        const float v3 = v0 ? v1 : (-infinity); // where
        const float v5 = v3 - v4; // sub
        const float v6 = exponential(v5); // exp
        const float v8 = v6 * r7; // div
        y0[j] = v8;
      }
      if (!row.valid) return;
      storeVector<1, 1>(out0 + (d0 * 539 + d1 * 49 + d2), y0);
    });
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads * Config::rows) kfuse_where_cast_softmax(const bf16 *in0, const bool *in1, float *__restrict__ out0) {
  waitForPredecessor();
  const RowTile<Config, 1> tile;
  const auto tile_in0 = tile.held<bf16>(0);
  const auto tile_out0 = tile.held<float>(1568);
  tile.bring(tile_in0, in0);
  tile.wait();
  tile.forEachRow([&](Row<Config> &row) { Body{tile_in0.of(row), in1, tile_out0.of(row)}(row); });
  __syncthreads();
  tile.give(out0, tile_out0);
}
