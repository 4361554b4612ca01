// matmul + mul
// func.func @f(%arg0: tensor<2x4x9x32xbf16>, %arg1: tensor<2x2x21x32xbf16>) -> tensor<2x4x9x21xbf16> {
//   %0 = kfuse.reshape %arg1 : (tensor<2x2x21x32xbf16>) -> tensor<2x2x1x21x32xbf16>
//   %1 = kfuse.broadcast %0 : (tensor<2x2x1x21x32xbf16>) -> tensor<2x2x2x21x32xbf16>
//   %2 = kfuse.reshape %1 : (tensor<2x2x2x21x32xbf16>) -> tensor<2x4x21x32xbf16>
//   %3 = kfuse.matmul %arg0, %2 {transpose_b} : (tensor<2x4x9x32xbf16>, tensor<2x4x21x32xbf16>) -> tensor<2x4x9x21xbf16>
//   %4 = kfuse.constant dense<1.250000e-01> : tensor<bf16>
//   %5 = kfuse.mul %3, %4 : (tensor<2x4x9x21xbf16>, tensor<bf16>) -> tensor<2x4x9x21xbf16>
//   return %5 : tensor<2x4x9x21xbf16>
// }
// config: k=32,m=128,n=128,split_k=1,stages=3,swizzle=1,warps_m=2,warps_n=2
// bound on sm_90a: 0.00 us; 0.00 us for 0.013 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/gemm_sm80.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int M = 9, N = 21, K = 32, batches = 8;
  static constexpr int tileM = 128, tileN = 128, tileK = 32, threads = 128;
  using Element = bf16;
  static constexpr int stages = 3, warpsM = 2, warpsN = 2;
  static constexpr int splitK = 1, tileSwizzle = 1, epilogueVector = 8, finishThreads = 256;
};

struct A {
  static constexpr bool contiguousK = true;
  static constexpr int vector = 8;
  static constexpr bool isFixed = false;
  static __device__ __forceinline__ Index outer(Index batch, Index m) {
    const Index d0 = batch / 4u, d1 = batch % 4u;
    return d0 * 1152 + d1 * 288 + m * 32;
  }
  static __device__ __forceinline__ Index inner(Index batch, Index k) {
    const Index d0 = batch / 4u, d1 = batch % 4u;
    return k;
  }
};

struct B {
  static constexpr bool contiguousK = true;
  static constexpr int vector = 8;
  static constexpr bool isFixed = false;
  static __device__ __forceinline__ Index outer(Index batch, Index n) {
    const Index d0 = batch / 4u, d1 = batch % 4u;
    return d0 * 1344 + d1 / 2u * 672 + n * 32;
  }
  static __device__ __forceinline__ Index inner(Index batch, Index k) {
    const Index d0 = batch / 4u, d1 = batch % 4u;
    return k;
  }
};

struct Epilogue {
  static constexpr bool lanesAlongRows = false;
  bf16 *out0;

  struct Operands {
  };
  __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
    const Index d0 = batch / 4u, d1 = batch % 4u;
  }
  __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 8> &acc, Index batch, Index m, Index n, int lanes) const {
    const Index d0 = batch / 4u, d1 = batch % 4u;
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v4 = acc[j] * 0.125f; // mul
      y0[j] = v4;
    }
    storeVector<8, 1>(out0 + (d0 * 756 + d1 * 189 + m * 21 + n), y0, lanes);
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_matmul_mul(const bf16 *in0, const bf16 *in1, bf16 *__restrict__ out0) {
  gemm<Config>(Matrix<A, bf16>{in0}, Matrix<B, bf16>{in1}, Epilogue{out0});
}
