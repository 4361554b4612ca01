// copy
// func.func @f(%arg0: tensor<4x24xbf16>, %arg1: tensor<2x9xi64>) -> tensor<2x9x24xbf16> {
//   %0 = kfuse.gather %arg0, %arg1 {axis = 0 : i64} : (tensor<4x24xbf16>, tensor<2x9xi64>) -> tensor<2x9x24xbf16>
//   return %0 : tensor<2x9x24xbf16>
// }
// config: threads=128,unroll=1,vector=8
// bound on sm_90a: 0.00 us; 0.00 us for 0.001 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/pointwise.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int threads = 128, unroll = 1;
  static constexpr Index chunks = 54; // of 8 points
};

struct Body {
  const bf16 *in0;
  const long long *in1;
  bf16 *out0;

  struct Operands {
    Vector<bf16, 8> v9;
  };

  __device__ __forceinline__ void load(Operands &x, Index chunk) const {
    const Index d0 = chunk / 3u, d1 = chunk % 3u * 8;
    const long long v0 = decode(in1[d0]);
    const bool v2 = v0 < 0ll; // lt
    const long long v4 = wrappedSum(v0, 4ll); // add
    const long long v5 = v2 ? v4 : v0; // where
    const long long v6 = maximum(v5, 0ll); // max
    const long long v8 = minimum(v6, 3ll); // min
    x.v9 = loadVector<8, 8>(in0 + (d1 + Index(v8) * 24));
  }

  __device__ __forceinline__ void apply(const Operands &x, Index chunk) const {
    const Index d0 = chunk / 3u, d1 = chunk % 3u * 8;
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v9 = decode(x.v9[j]);
      y0[j] = v9;
    }
    storeVector<8, 8>(out0 + (d0 * 24 + d1), y0);
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_copy(const bf16 *in0, const long long *in1, bf16 *__restrict__ out0) {
  waitForPredecessor();
  forEachChunk<Config>(Body{in0, in1, out0});
}
