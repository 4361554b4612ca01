// exp + mul + matmul
// func.func @f(%arg0: tensor<19x50xf32>, %arg1: tensor<19x50xf32>, %arg2: tensor<50x30xf32>) -> tensor<19x30xf32> {
//   %0 = kfuse.exp %arg0 : (tensor<19x50xf32>) -> tensor<19x50xf32>
//   %1 = kfuse.mul %0, %arg1 : (tensor<19x50xf32>, tensor<19x50xf32>) -> tensor<19x50xf32>
//   %2 = kfuse.matmul %1, %arg2 : (tensor<19x50xf32>, tensor<50x30xf32>) -> tensor<19x30xf32>
//   return %2 : tensor<19x30xf32>
// }
// config: k=16,m=64,n=64,split_k=1,swizzle=1,thread_m=4,thread_n=4
// bound on sm_90a: 0.00 us; 0.00 us for 0.016 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/gemm_simt.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int M = 19, N = 30, K = 50, batches = 1;
  static constexpr int tileM = 64, tileN = 64, tileK = 16, threads = 256;
  static constexpr int threadM = 4, threadN = 4;
  static constexpr int splitK = 1, tileSwizzle = 1, epilogueVector = 4, finishThreads = 256;
};

struct A {
  static constexpr bool contiguousK = true;
  const float *in0;
  const float *in1;
  __device__ __forceinline__ Vector<float, 4> operator()(Index batch, Index m, Index k, int lanes) const {
    struct {
      Vector<float, 4> v0;
      Vector<float, 4> v2;
    } x;
    x.v0 = loadVector<4, 2>(in0 + (m * 50 + k), lanes);
    x.v2 = loadVector<4, 2>(in1 + (m * 50 + k), lanes);
    Vector<float, 4> y;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v1 = exponential(v0); // exp
      const float v2 = decode(x.v2[j]);
      const float v3 = v1 * v2; // mul
      y[j] = j < lanes ? v3 : 0.0f;
    }
    return y;
  }
};

struct B {
  static constexpr bool contiguousK = false;
  const float *in2;
  __device__ __forceinline__ Vector<float, 4> operator()(Index batch, Index n, Index k, int lanes) const {
    struct {
      Vector<float, 4> v4;
    } x;
    x.v4 = loadVector<4, 2>(in2 + (k * 30 + n), lanes);
    Vector<float, 4> y;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v4 = decode(x.v4[j]);
      y[j] = j < lanes ? v4 : 0.0f;
    }
    return y;
  }
};

struct Epilogue {
  static constexpr bool lanesAlongRows = false;
  float *out0;

  struct Operands {
  };
  __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
  }
  __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 4> &acc, Index batch, Index m, Index n, int lanes) const {
    Vector<float, 4> y0;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      y0[j] = acc[j];
    }
    storeVector<4, 2>(out0 + (m * 30 + n), y0, lanes);
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_exp_mul_matmul(const float *in0, const float *in1, const float *in2, float *__restrict__ out0) {
  gemmSimt<Config>(A{in0, in1}, B{in2}, Epilogue{out0});
}
