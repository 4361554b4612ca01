// copy
// func.func @f(%arg0: tensor<33x47xf32>) -> tensor<47x33xf32> {
//   %0 = kfuse.transpose %arg0 {permutation = array<i64: 1, 0>} : (tensor<33x47xf32>) -> tensor<47x33xf32>
//   return %0 : tensor<47x33xf32>
// }
// config: across=1,down=1,down_first=0,lanes_down=32,shared=1,side=64,warps_across=8,warps_down=1
// bound on sm_90a: 0.00 us; 0.00 us for 0.012 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/transpose.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int down = 1, across = 1; // Points of a thread along d0 and d1.
  static constexpr int lanesDown = 32, warpsDown = 1, warpsAcross = 8;
  static constexpr bool downFirst = false;
  static constexpr int side = 64;
  static constexpr Index extentDown = 47, extentAcross = 33;
};

struct Body {
  const float *in0;
  float *out0;

  struct Staged {
    Vector<float, 1> v0;
  };
  __device__ __forceinline__ void stage(Staged &s, Index batch, Index d0, Index d1) const {
    s.v0 = loadVector<1, 1, true>(in0 + (d1 * 47 + d0));
  }

  struct Transposed {
    Vector<float, 1> v0;
  };
  __device__ __forceinline__ Transposed transposed(const Staged (&s)[Config::across], int r) const {
    Transposed t;
    #pragma unroll
    for (int j = 0; j < Config::across; ++j) {
      t.v0[j] = s[j].v0[r];
    }
    return t;
  }

  struct Operands {
  };
  __device__ __forceinline__ void load(Operands &x, Index batch, Index d0, Index d1) const {
  }

  __device__ __forceinline__ void apply(const Transposed &t, const Operands &x, Index batch, Index d0, Index d1) const {
    Vector<float, 1> y0;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const float v0 = decode(t.v0[j]);
      y0[j] = v0;
    }
    storeVector<1, 1>(out0 + (d0 * 33 + d1), y0);
  }
};

extern "C" __global__ void __launch_bounds__(256) kfuse_copy(const float *in0, float *__restrict__ out0) {
  waitForPredecessor();
  transposeElements<Config>(Body{in0, out0});
}
