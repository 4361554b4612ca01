// reduce
// func.func @f(%arg0: tensor<3x10x7x8xbf16>) -> tensor<3x7xbf16> {
//   %0 = kfuse.reduce %arg0 {axes = array<i64: 1, 3>, function = "max"} : (tensor<3x10x7x8xbf16>) -> tensor<3x7xbf16>
//   return %0 : tensor<3x7xbf16>
// }
// config: cluster=1,rows=128,storage=0,threads=1,vector=4
// bound on sm_90a: 0.00 us; 0.00 us for 0.003 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/rows.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int threads = 1, rows = 128, vector = 4; // Threads of a row, rows of a block, columns of a chunk.
  static constexpr int cluster = 1; // Blocks of a row.
  static constexpr int unroll = 4; // Chunks in flight.
  static constexpr bool unrollAll = false, stream = false;
  static constexpr Index rowCount = 21, columns = 80;
};

extern "C" __global__ void __launch_bounds__(Config::threads * Config::rows) kfuse_reduce(const bf16 *in0, bf16 *__restrict__ out0) {
  waitForPredecessor();
  Row<Config> row;
  const Index d0 = row.index / 7u, d1 = row.index % 7u;

  Partial<Maximum, float, 4> a1;
  struct Pass0 {
    Vector<bf16, 4> v0;
  };
  auto loadPass0 = [&](Pass0 &w, Index d2) {
    w.v0 = loadVector<4, 4>(in0 + (d0 * 560 + d2 / 8u * 56 + d1 * 8 + d2 % 8u));
  };
  row.forEach(row.fetch<Pass0>(loadPass0), loadPass0, [&](const Pass0 &w, int i, Index d2) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v0 = decode(w.v0[j]);
      a1.add(j, v0);
    }
  });
  const float v1 = row.reduce<1>(a1); // reduce max
  if (row.writesRow()) encode(out0[d0 * 7 + d1], v1);
}
