// gelu + cast
// func.func @f(%arg0: tensor<265x130xbf16>) -> tensor<130x265xf16> {
//   %0 = kfuse.gelu %arg0 : (tensor<265x130xbf16>) -> tensor<265x130xbf16>
//   %1 = kfuse.cast %0 : (tensor<265x130xbf16>) -> tensor<265x130xf16>
//   %2 = kfuse.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<265x130xf16>) -> tensor<130x265xf16>
//   return %2 : tensor<130x265xf16>
// }
// config: chunks_down=24,in_lines=1,lanes_across=16,warps=12
// bound on sm_90a: 0.03 us; 0.03 us for 0.138 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/transpose_unaligned.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int lanesAcross = 16, chunksDown = 24, warps = 12;
  static constexpr bool inLines = true;
  static constexpr Index extentDown = 130, extentAcross = 265; // The extents of d0 and d1.
  static constexpr Index sourcePitch = 130, resultPitch = 265;
};

struct Body {
  const bf16 *in0;
  f16 *out0;

  using Element = bf16;
  __device__ __forceinline__ const Element *source(Index batch) const {
    return in0 + (0);
  }
  __device__ __forceinline__ const Element *sourceEnd() const { return in0 + 34450; }

  __device__ __forceinline__ void store(const Vector<Element, 8> &x, Index batch, Index d0, Index d1, int begin, int end) const {
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x[j]);
      const float v1 = gelu(v0); // gelu
      y0[j] = v1;
    }
    storePart(out0 + (d0 * 265 + d1), y0, begin, end);
  }
};

extern "C" __global__ void __launch_bounds__(384, 2) kfuse_gelu_cast(const bf16 *in0, f16 *__restrict__ out0) {
  waitForPredecessor();
  transposeUnaligned<Config>(Body{in0, out0});
}
