// matmul
// func.func @f(%arg0: tensor<3x4104xbf16>, %arg1: tensor<33x4104xbf16>) -> tensor<3x33xbf16> {
//   %0 = kfuse.matmul %arg0, %arg1 {transpose_b} : (tensor<3x4104xbf16>, tensor<33x4104xbf16>) -> tensor<3x33xbf16>
//   return %0 : tensor<3x33xbf16>
// }
// config: k=4104,m=3,n=4,outputs=2,split=4,split_k=1,swizzle=1,unroll=2,warps=8
// bound on sm_90a: 0.06 us; 0.06 us for 0.296 MB, 0.00 us for 0.001 GFLOP
#include <kfuse/gemv.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int M = 3, N = 33, K = 4104, batches = 1;
  static constexpr int tileM = 3, tileN = 4, tileK = 4104, threads = 256;
  static constexpr int outputs = 2, split = 4, unroll = 2;
  static constexpr int fetchedColumns = 0, fetchers = 132;
  static constexpr int splitK = 1, tileSwizzle = 1, epilogueVector = 2, finishThreads = 256;
};

struct A {
  static constexpr bool contiguousK = true;
  static constexpr int vector = 8;
  static constexpr bool isFixed = false;
  static __device__ __forceinline__ Index outer(Index batch, Index m) {
    return m * 4104;
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
    return n * 4104;
  }
  static __device__ __forceinline__ Index inner(Index batch, Index k) {
    return k;
  }
};

struct Epilogue {
  static constexpr bool lanesAlongRows = false;
  bf16 *out0;

  struct Operands {
  };
  __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
  }
  __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 2> &acc, Index batch, Index m, Index n, int lanes) const {
    Vector<float, 2> y0;
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      y0[j] = acc[j];
    }
    storeVector<2, 1>(out0 + (m * 33 + n), y0, lanes);
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_matmul(const bf16 *in0, const bf16 *in1, bf16 *__restrict__ out0) {
  gemv<Config>(StoredRows<A, bf16>{in0}, Weights<B, bf16>{in1}, Epilogue{out0});
}
