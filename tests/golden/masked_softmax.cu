// mul + where + softmax
// func.func @f(%arg0: tensor<2x4x9x72xbf16>, %arg1: tensor<9x72xi1>) -> tensor<2x4x9x72xbf16> {
//   %0 = kfuse.constant dense<1.250000e-01> : tensor<bf16>
//   %1 = kfuse.mul %arg0, %0 : (tensor<2x4x9x72xbf16>, tensor<bf16>) -> tensor<2x4x9x72xbf16>
//   %2 = kfuse.constant dense<0xFF80> : tensor<bf16>
//   %3 = kfuse.where %arg1, %1, %2 : (tensor<9x72xi1>, tensor<2x4x9x72xbf16>, tensor<bf16>) -> tensor<2x4x9x72xbf16>
//   %4 = kfuse.softmax %3 : (tensor<2x4x9x72xbf16>) -> tensor<2x4x9x72xbf16>
//   return %4 : tensor<2x4x9x72xbf16>
// }
// config: cluster=1,rows=8,storage=1,threads=16,vector=8
// bound on sm_90a: 0.00 us; 0.00 us for 0.021 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/rows.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int threads = 16, rows = 8, vector = 8; // Threads of a row, rows of a block, columns of a chunk.
  static constexpr int cluster = 1; // Blocks of a row.
  static constexpr int unroll = 1; // Chunks in flight.
  static constexpr bool unrollAll = true, stream = false;
  static constexpr Index rowCount = 72, columns = 72;
};

extern "C" __global__ void __launch_bounds__(Config::threads * Config::rows) kfuse_mul_where_softmax(const bf16 *in0, const bool *in1, bf16 *out0) {
  waitForPredecessor();
  Row<Config> row;
  const Index d0 = row.index / 9u, d1 = row.index % 9u;

  struct Operands {
    Vector<bool, 8> v0;
    Vector<bf16, 8> v1;
  };
  static_assert(sizeof(Operands) == 32);
  RegisterCache<Config, Operands> cache;
  row.fill(cache, [&](Operands &x, Index d2) {
    x.v0 = loadVector<8, 8>(in1 + (d1 * 72 + d2));
    x.v1 = loadVector<8, 8>(in0 + (d0 * 648 + d1 * 72 + d2));
  });

  Partial<Maximum, float, 8> a6;
  row.forEach([&](int i, Index d2) {
    const Operands x = cache[i];
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const bool v0 = decode(x.v0[j]);
      const float v1 = decode(x.v1[j]);
      const float v3 = v1 * 0.125f; // mul
      const float v5 = v0 ? v3 : (-infinity); // where
      a6.add(j, v5);
    }
  });
  const float v6 = row.reduce<6>(a6); // reduce max

  Partial<Sum, float, 8> a9;
  row.forEach([&](int i, Index d2) {
    const Operands x = cache[i];
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const bool v0 = decode(x.v0[j]);
      const float v1 = decode(x.v1[j]);
      const float v3 = v1 * 0.125f; // mul
      const float v5 = v0 ? v3 : (-infinity); // where
      const float v7 = v5 - v6; // sub
      const float v8 = exponential(v7); // exp
      a9.add(j, v8);
    }
  });
  const float v9 = row.reduce<9>(a9); // reduce sum

  Vector<float, 8> y0;
  const float r9 = reciprocal(v9);
  row.forEach([&](int i, Index d2) {
    const Operands x = cache[i];
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const bool v0 = decode(x.v0[j]);
      const float v1 = decode(x.v1[j]);
      const float v3 = v1 * 0.125f; // mul
      const float v5 = v0 ? v3 : (-infinity); // where
      const float v7 = v5 - v6; // sub
      const float v8 = exponential(v7); // exp
      const float v10 = v8 * r9; // div
      y0[j] = v10;
    }
    if (!row.valid) return;
    storeVector<8, 8>(out0 + (d0 * 648 + d1 * 72 + d2), y0);
  });
}
