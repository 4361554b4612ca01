// add + gelu
// func.func @f(%arg0: tensor<64x96xbf16>, %arg1: tensor<96xbf16>) -> tensor<64x96xbf16> {
//   %0 = kfuse.add %arg0, %arg1 : (tensor<64x96xbf16>, tensor<96xbf16>) -> tensor<64x96xbf16>
//   %1 = kfuse.gelu %0 : (tensor<64x96xbf16>) -> tensor<64x96xbf16>
//   return %1 : tensor<64x96xbf16>
// }
// config: threads=256,unroll=2,vector=8
// bound on sm_90a: 0.01 us; 0.01 us for 0.025 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/pointwise.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int threads = 256, unroll = 2;
  static constexpr Index chunks = 768; // of 8 points
};

struct Body {
  const bf16 *in0;
  const bf16 *in1;
  bf16 *out0;

  struct Operands {
    Vector<bf16, 8> v0;
    Vector<bf16, 8> v1;
  };

  __device__ __forceinline__ void load(Operands &x, Index chunk) const {
    const Index d0 = chunk / 12u, d1 = chunk % 12u * 8;
    x.v0 = loadVector<8, 8, true>(in0 + (d0 * 96 + d1));
    x.v1 = loadVector<8, 8, true>(in1 + (d1));
  }

  __device__ __forceinline__ void apply(const Operands &x, Index chunk) const {
    const Index d0 = chunk / 12u, d1 = chunk % 12u * 8;
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v1 = decode(x.v1[j]);
      const float v2 = v0 + v1; // add
      const float v3 = narrow::gelu(v2); // gelu
      y0[j] = v3;
    }
    storeVector<8, 8>(out0 + (d0 * 96 + d1), y0);
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_add_gelu(const bf16 *in0, const bf16 *in1, bf16 *out0) {
  waitForPredecessor();
  forEachChunk<Config>(Body{in0, in1, out0});
}
