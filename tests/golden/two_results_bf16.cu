// matmul + mul + cast
// func.func @f(%arg0: tensor<30x520xbf16>, %arg1: tensor<40x520xbf16>, %arg2: tensor<30x1xbf16>) -> (tensor<30x40xbf16>, tensor<30x40xf32>) {
//   %0 = kfuse.matmul %arg0, %arg1 {transpose_b} : (tensor<30x520xbf16>, tensor<40x520xbf16>) -> tensor<30x40xbf16>
//   %1 = kfuse.mul %0, %arg2 : (tensor<30x40xbf16>, tensor<30x1xbf16>) -> tensor<30x40xbf16>
//   %2 = kfuse.cast %1 : (tensor<30x40xbf16>) -> tensor<30x40xf32>
//   return %0, %2 : tensor<30x40xbf16>, tensor<30x40xf32>
// }
// config: k=64,m=16,n=64,split_k=4,stages=4,swizzle=1,warps_m=1,warps_n=4
// bound on sm_90a: 0.02 us; 0.02 us for 0.080 MB, 0.00 us for 0.001 GFLOP
#include <kfuse/gemm_sm80.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int M = 30, N = 40, K = 520, batches = 1;
  static constexpr int tileM = 16, tileN = 64, tileK = 64, threads = 128;
  using Element = bf16;
  static constexpr int stages = 4, warpsM = 1, warpsN = 4;
  static constexpr int splitK = 4, tileSwizzle = 1, epilogueVector = 8, finishThreads = 256;
};

struct A {
  static constexpr bool contiguousK = true;
  static constexpr int vector = 8;
  static constexpr bool isFixed = false;
  static __device__ __forceinline__ Index outer(Index batch, Index m) {
    return m * 520;
  }
  static __device__ __forceinline__ Index inner(Index batch, Index k) {
    return k;
  }
};

struct B {
  static constexpr bool contiguousK = true;
  static constexpr int vector = 8;
  static constexpr bool isFixed = false;
  static __device__ __forceinline__ Index outer(Index batch, Index n) {
    return n * 520;
  }
  static __device__ __forceinline__ Index inner(Index batch, Index k) {
    return k;
  }
};

struct Epilogue {
  static constexpr bool lanesAlongRows = false;
  const bf16 *in2;
  bf16 *out0;
  float *out1;

  struct Operands {
    bf16 v3;
  };
  __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
    x.v3 = in2[m];
  }
  __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 8> &acc, Index batch, Index m, Index n, int lanes) const {
    Vector<float, 8> y0;
    Vector<float, 8> y1;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      y0[j] = acc[j];
      const float v3 = decode(x.v3);
      const float v4 = acc[j] * v3; // mul
      y1[j] = v4;
    }
    storeVector<8, 8>(out0 + (m * 40 + n), y0);
    storeVector<8, 8>(out1 + (m * 40 + n), y1);
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_matmul_mul_cast(const bf16 *in0, const bf16 *in1, const bf16 *in2, bf16 *__restrict__ out0, float *__restrict__ out1, float *workspace) {
  gemm<Config>(Matrix<A, bf16>{in0}, Matrix<B, bf16>{in1}, StorePartials<Config>{workspace});
}

extern "C" __global__ void __launch_bounds__(Config::finishThreads) kfuse_matmul_mul_cast_finish(const bf16 *in0, const bf16 *in1, const bf16 *in2, bf16 *__restrict__ out0, float *__restrict__ out1, float *workspace) {
  finishSplits<Config>(workspace, Epilogue{in2, out0, out1});
}
