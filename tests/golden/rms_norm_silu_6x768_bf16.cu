// rms_norm + silu
// func.func @f(%arg0: tensor<6x768xbf16>, %arg1: tensor<768xbf16>) -> tensor<6x768xbf16> {
//   %0 = kfuse.rms_norm %arg0, %arg1 {epsilon = 9.99999997E-7 : f32} : (tensor<6x768xbf16>, tensor<768xbf16>) -> tensor<6x768xbf16>
//   %1 = kfuse.silu %0 : (tensor<6x768xbf16>) -> tensor<6x768xbf16>
//   return %1 : tensor<6x768xbf16>
// }
// config: cluster=1,rows=1,storage=1,threads=96,vector=8
// bound on sm_90a: 0.00 us; 0.00 us for 0.020 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/rows.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int threads = 96, rows = 1, vector = 8; // Threads of a row, rows of a block, columns of a chunk.
  static constexpr int cluster = 1; // Blocks of a row.
  static constexpr int unroll = 1; // Chunks in flight.
  static constexpr bool unrollAll = true, stream = false;
  static constexpr Index rowCount = 6, columns = 768;
};

extern "C" __global__ void __launch_bounds__(Config::threads * Config::rows) kfuse_rms_norm_silu(const bf16 *in0, const bf16 *in1, bf16 *out0) {
  waitForPredecessor();
  Row<Config> row;
  const Index d0 = row.index;

  struct Operands {
    Vector<bf16, 8> v0;
  };
  static_assert(sizeof(Operands) == 16);
  RegisterCache<Config, Operands> cache;
  row.fill(cache, [&](Operands &x, Index d1) {
    x.v0 = loadVector<8, 8>(in0 + (d0 * 768 + d1));
  });
  struct Pass1 {
    Vector<bf16, 8> v9;
  };
  auto loadPass1 = [&](Pass1 &w, Index d1) {
    w.v9 = loadVector<8, 8>(in1 + (d1));
  };
  const auto ahead = row.fetch<Pass1>(loadPass1);

  Partial<Sum, float, 8> a2;
  row.forEach([&](int i, Index d1) {
    const Operands x = cache[i];
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v1 = v0 * v0; // mul
      a2.add(j, v1);
    }
  });
  const float v2 = row.reduce<2>(a2); // reduce sum

  Vector<float, 8> y0;
  const float v4 = v2 * 0.00130208337f; // mul
  const float v6 = v4 + 9.99999997e-07f; // add
  const float v7 = rsqrtf(v6); // rsqrt
  row.forEach(ahead, loadPass1, [&](const Pass1 &w, int i, Index d1) {
    const Operands x = cache[i];
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v8 = v0 * v7; // mul
      const float v9 = decode(w.v9[j]);
      const float v10 = v8 * v9; // mul
      const float v11 = silu(v10); // silu
      y0[j] = v11;
    }
    if (!row.valid) return;
    storeVector<8, 8>(out0 + (d0 * 768 + d1), y0);
  });
}
