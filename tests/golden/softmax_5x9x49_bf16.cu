// softmax
// func.func @f(%arg0: tensor<5x9x49xbf16>) -> tensor<5x9x49xbf16> {
//   %0 = kfuse.softmax %arg0 : (tensor<5x9x49xbf16>) -> tensor<5x9x49xbf16>
//   return %0 : tensor<5x9x49xbf16>
// }
// config: cluster=1,rows=16,rows_each=2,storage=1,threads=8,vector=1
// bound on sm_90a: 0.00 us; 0.00 us for 0.009 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/row_tile.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int threads = 8, rows = 16, vector = 1; // Threads of a row, rows of a block, columns of a chunk.
  static constexpr int cluster = 1; // Blocks of a row.
  static constexpr int unroll = 4; // Chunks in flight.
  static constexpr bool unrollAll = true, stream = false;
  static constexpr Index rowCount = 45, columns = 49;
};

struct Body {
  HeldRow<bf16, Index> in0;
  HeldRow<bf16, Index> out0;

  __device__ __forceinline__ void operator()(Row<Config> &row) const {
    const Index d0 = row.index;

    struct Operands {
      Vector<bf16, 1> v0;
    };
    static_assert(sizeof(Operands) == 2);
    RegisterCache<Config, Operands> cache;
    row.fill(cache, [&](Operands &x, Index d1) {
      x.v0 = loadVector<1, 1>(in0 + (d0 * 49 + d1));
    });

    Partial<Maximum, float, 1> a1;
    row.forEach([&](int i, Index d1) {
      const Operands x = cache[i];
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const float v0 = decode(x.v0[j]);
        a1.add(j, v0);
      }
    });
    const float v1 = row.reduce<1>(a1); // reduce max

    Partial<Sum, float, 1> a4;
    row.forEach([&](int i, Index d1) {
      const Operands x = cache[i];
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const float v0 = decode(x.v0[j]);
        const float v2 = v0 - v1; // sub
        const float v3 = exponential(v2); // exp
        a4.add(j, v3);
      }
    });
    const float v4 = row.reduce<4>(a4); // reduce sum

    Vector<float, 1> y0;
    const float r4 = reciprocal(v4);
    row.forEach([&](int i, Index d1) {
      const Operands x = cache[i];
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const float v0 = decode(x.v0[j]);
        const float v2 = v0 - v1; // sub
        const float v3 = exponential(v2); // exp
        const float v5 = v3 * r4; // div
        y0[j] = v5;
      }
      if (!row.valid) return;
      storeVector<1, 1>(out0 + (d0 * 49 + d1), y0);
    });
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads * Config::rows) kfuse_softmax(const bf16 *in0, bf16 *out0) {
  waitForPredecessor();
  const RowTile<Config, 2> tile;
  const auto tile_in0 = tile.held<bf16>(0);
  const auto tile_out0 = tile.held<bf16>(0);
  tile.bring(tile_in0, in0);
  tile.wait();
  tile.forEachRow([&](Row<Config> &row) { Body{tile_in0.of(row), tile_out0.of(row)}(row); });
  __syncthreads();
  tile.give(out0, tile_out0);
}
