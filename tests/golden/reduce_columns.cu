// reduce
// func.func @f(%arg0: tensor<70x45xf32>) -> tensor<45xf32> {
//   %0 = kfuse.reduce %arg0 {axes = array<i64: 0>, function = "sum"} : (tensor<70x45xf32>) -> tensor<45xf32>
//   return %0 : tensor<45xf32>
// }
// config: rows=128,storage=0,threads=1,vector=4
// bound on sm_90a: 0.00 us; 0.00 us for 0.013 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/rows.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int threads = 1, rows = 128, vector = 4; // Threads of a row, rows of a block, columns of a chunk.
  static constexpr int unroll = 4; // Chunks in flight.
  static constexpr bool unrollAll = false;
  static constexpr Index rowCount = 45, columns = 70;
};

extern "C" __global__ void __launch_bounds__(Config::threads * Config::rows) kfuse_reduce(const float *__restrict__ in0, float *__restrict__ out0) {
  waitForPredecessor();
  const Row<Config> row;
  const Index d0 = row.index;

  Partial<Sum, float, 4> a1;
  struct Pass0 {
    Vector<float, 4> v0;
  };
  auto loadPass0 = [&](Pass0 &w, Index d1) {
    const int lanes = row.lanes(d1);
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      w.v0[j] = j < lanes ? in0[(d1 + j) * 45 + d0] : float{};
    }
  };
  row.forEach<Pass0>(loadPass0, [&](const Pass0 &w, int i, Index d1) {
    const int lanes = row.lanes(d1);
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v0 = decode(w.v0[j]);
      if (j < lanes) a1.add(j, v0);
    }
  });
  const float v1 = row.reduce<1>(a1); // reduce sum
  if (row.valid && row.thread == 0) encode(out0[d0], v1);
}
