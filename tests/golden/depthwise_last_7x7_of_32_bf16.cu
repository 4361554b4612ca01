// mul + reduce + add
// func.func @f(%arg0: tensor<2x10x9x32xbf16>, %arg1: tensor<7x7x32xbf16>, %arg2: tensor<32xbf16>) -> tensor<2x10x9x32xbf16> {
//   %0 = kfuse.transpose %arg0 {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x10x9x32xbf16>) -> tensor<2x32x10x9xbf16>
//   %1 = kfuse.window %0 {dilations = array<i64: 1, 1>, kernel = array<i64: 7, 7>, pads = array<i64: 3, 3>, strides = array<i64: 1, 1>} : (tensor<2x32x10x9xbf16>) -> tensor<2x32x7x7x10x9xbf16>
//   %2 = kfuse.transpose %1 {permutation = array<i64: 0, 4, 5, 2, 3, 1>} : (tensor<2x32x7x7x10x9xbf16>) -> tensor<2x10x9x7x7x32xbf16>
//   %3 = kfuse.mul %2, %arg1 : (tensor<2x10x9x7x7x32xbf16>, tensor<7x7x32xbf16>) -> tensor<2x10x9x7x7x32xbf16>
//   %4 = kfuse.reduce %3 {axes = array<i64: 3, 4>, function = "sum"} : (tensor<2x10x9x7x7x32xbf16>) -> tensor<2x10x9x32xbf16>
//   %5 = kfuse.add %4, %arg2 : (tensor<2x10x9x32xbf16>, tensor<32xbf16>) -> tensor<2x10x9x32xbf16>
//   return %5 : tensor<2x10x9x32xbf16>
// }
// config: access=1,lanes=16,rows=4,strip=4,threads=128,unrolled=0,vector=2
// bound on sm_90a: 0.01 us; 0.01 us for 0.026 MB, 0.01 us for 0.001 GFLOP
#include <kfuse/windows.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  static constexpr int rows = 4, strideDown = 1, rowTaps = 7;
  static constexpr bool unrolled = false;
};

struct Body {
  const bf16 *in0;
  const bf16 *in1;
  const bf16 *in2;
  bf16 *out0;
  Index d0, d1, d2, d3; // The first of a tile.

  struct Loaded {
    Vector<unsigned, 1> v0[10];
  };
  struct Row {
    float v0[10][2];
  };
  struct Totals {
    float a3[4][2]; // sum
    static __device__ __forceinline__ Totals identity() {
      Totals t;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        #pragma unroll
        for (int l = 0; l < 2; ++l) {
          t.a3[j][l] = Sum::identity<float>();
        }
      }
      return t;
    }
  };
  __device__ __forceinline__ void load(Loaded &x, Index down) const {
    if (isWithin(Index(d2 + 0 - 3), Index(0), Index(9)) && isWithin(Index(d2 + 9 - 3), Index(0), Index(9)) && isWithin(Index(d1 + down - 3), Index(0), Index(10))) {
      #pragma unroll
      for (int i = 0; i < 10; ++i) {
        x.v0[i] = loadVector<1, 1>(reinterpret_cast<const unsigned *>(in0 + (d0 * 2880 + d1 * 288 + down * 288 + d2 * 32 + d3 + i * 32 - 960)));
      }
    }
    else {
      #pragma unroll
      for (int i = 0; i < 10; ++i) {
        x.v0[i] = isWithin(Index(d2 + i - 3), Index(0), Index(9)) && isWithin(Index(d1 + down - 3), Index(0), Index(10)) ? loadVector<1, 1>(reinterpret_cast<const unsigned *>(in0 + (d0 * 2880 + d1 * 288 + down * 288 + d2 * 32 + d3 + i * 32 - 960))) : Vector<unsigned, 1>{};
      }
    }
  }
  __device__ __forceinline__ void decodeRow(Row &x, const Loaded &from) const {
    #pragma unroll
    for (int i = 0; i < 10; ++i) {
      #pragma unroll
      for (int l = 0; l < 1; ++l) {
        float pair[2];
        decodeWord(pair, bf16{}, from.v0[i][l]);
        x.v0[i][2 * l] = pair[0];
        x.v0[i][2 * l + 1] = pair[1];
      }
    }
  }
  __device__ __forceinline__ void add(Totals &totals, const Row &x, Index h, Index rowTap) const {
    struct Loaded {
      Vector<unsigned, 1> v1[7];
    } from;
    struct Values {
      float v1[7][2];
    } w;
    #pragma unroll
    for (int i = 0; i < 7; ++i) {
      from.v1[i] = loadVector<1, 1>(reinterpret_cast<const unsigned *>(in1 + (rowTap * 224 + i * 32 + d3)));
    }
    #pragma unroll
    for (int i = 0; i < 7; ++i) {
      #pragma unroll
      for (int l = 0; l < 1; ++l) {
        float pair[2];
        decodeWord(pair, bf16{}, from.v1[i][l]);
        w.v1[i][2 * l] = pair[0];
        w.v1[i][2 * l + 1] = pair[1];
      }
    }
    #pragma unroll
    for (int k = 0; k < 7; ++k) {
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        #pragma unroll
        for (int l = 0; l < 2; ++l) {
          const float v0 = x.v0[j * 1 + k * 1][l];
          const float v1 = w.v1[k][l];
          const float v2 = v0 * v1; // mul
          totals.a3[j][l] = Sum::combine(totals.a3[j][l], v2);
        }
      }
    }
  }
  __device__ __forceinline__ void finish(const Totals &totals, Index h) const {
    #pragma unroll
    for (int s = 0; s < 4; ++s) {
      struct Extras {
        Vector<bf16, 2> v4;
      } w;
      w.v4 = loadVector<2, 2>(in2 + (d3));
      Vector<float, 2> y0;
      #pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float v4 = decode(w.v4[j]);
        const float v5 = totals.a3[s][j] + v4; // add
        y0[j] = v5;
      }
      storeVector<2, 2>(out0 + (d0 * 2880 + (d1 + h) * 288 + (d2 + s) * 32 + d3), y0);
    }
  }
};

extern "C" __global__ void __launch_bounds__(128) kfuse_mul_reduce_add(const bf16 *in0, const bf16 *in1, const bf16 *in2, bf16 *__restrict__ out0) {
  waitForPredecessor();
  const Index tile = Index(blockIdx.x) * 128 + Index(threadIdx.x);
  if (tile >= 288)
    return;
  const Index t0 = tile / 144u, t3 = tile / 144u % 1u, t1 = tile / 48u % 3u, t2 = tile / 16u % 3u, lane = tile % 16u;
  const Index d0 = t0;
  const Index d1 = minimum(Index(t1 * 4), Index(6));
  const Index d2 = minimum(Index(t2 * 4), Index(5));
  const Index d3 = (t3 * 16 + lane) * 2;
  reduceWindows<Config>(Body{in0, in1, in2, out0, d0, d1, d2, d3});
}
