// mul + rotary + rotary + state_update + state_update + attention
// func.func @f(%arg0: tensor<4x384xbf16>, %arg1: tensor<4x2x150x32xbf16> {kfuse.role = "state"}, %arg2: tensor<4x2x150x32xbf16> {kfuse.role = "state"}, %arg3: tensor<4xi64> {kfuse.role = "input"}, %arg4: tensor<9x16xbf16>, %arg5: tensor<9x16xbf16>) -> (tensor<4x2x150x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4x2x4x32xbf16>) attributes {fixed = array<i64: 1, 2, 3>} {
//   %0 = kfuse.constant dense<67> : tensor<i64>
//   %1 = kfuse.mul %arg3, %0 : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
//   %2 = kfuse.gather %arg4, %arg3 {axis = 0 : i64} : (tensor<9x16xbf16>, tensor<4xi64>) -> tensor<4x16xbf16>
//   %3 = kfuse.reshape %2 : (tensor<4x16xbf16>) -> tensor<4x1x1x16xbf16>
//   %4 = kfuse.gather %arg5, %arg3 {axis = 0 : i64} : (tensor<9x16xbf16>, tensor<4xi64>) -> tensor<4x16xbf16>
//   %5 = kfuse.reshape %4 : (tensor<4x16xbf16>) -> tensor<4x1x1x16xbf16>
//   %6 = kfuse.slice %arg0 {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<4x384xbf16>) -> tensor<4x256xbf16>
//   %7 = kfuse.reshape %6 : (tensor<4x256xbf16>) -> tensor<4x2x4x32xbf16>
//   %8 = kfuse.rotary %7, %3, %5 : (tensor<4x2x4x32xbf16>, tensor<4x1x1x16xbf16>, tensor<4x1x1x16xbf16>) -> tensor<4x2x4x32xbf16>
//   %9 = kfuse.slice %arg0 {offsets = array<i64: 0, 256>, strides = array<i64: 1, 1>} : (tensor<4x384xbf16>) -> tensor<4x64xbf16>
//   %10 = kfuse.reshape %9 : (tensor<4x64xbf16>) -> tensor<4x2x1x32xbf16>
//   %11 = kfuse.rotary %10, %3, %5 : (tensor<4x2x1x32xbf16>, tensor<4x1x1x16xbf16>, tensor<4x1x1x16xbf16>) -> tensor<4x2x1x32xbf16>
//   %12 = kfuse.state_update %arg1, %11, %1 {axis = 2 : i64} : (tensor<4x2x150x32xbf16>, tensor<4x2x1x32xbf16>, tensor<4xi64>) -> tensor<4x2x150x32xbf16>
//   %13 = kfuse.slice %arg0 {offsets = array<i64: 0, 320>, strides = array<i64: 1, 1>} : (tensor<4x384xbf16>) -> tensor<4x64xbf16>
//   %14 = kfuse.reshape %13 : (tensor<4x64xbf16>) -> tensor<4x2x1x32xbf16>
//   %15 = kfuse.state_update %arg2, %14, %1 {axis = 2 : i64} : (tensor<4x2x150x32xbf16>, tensor<4x2x1x32xbf16>, tensor<4xi64>) -> tensor<4x2x150x32xbf16>
//   %16 = kfuse.attention %8, %12, %15, %1 : (tensor<4x2x4x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4xi64>) -> tensor<4x2x4x32xbf16> {
//   ^bb0(%arg6: tensor<4x2x4x32xbf16>, %arg7: tensor<4x2x150x32xbf16>, %arg8: tensor<4x2x150x32xbf16>, %arg9: tensor<4xi64>):
//     %17 = kfuse.iota {dim = 0 : i64} : tensor<150xi64>
//     %18 = kfuse.reshape %arg9 : (tensor<4xi64>) -> tensor<4x1x1x1xi64>
//     %19 = kfuse.le %17, %18 : (tensor<150xi64>, tensor<4x1x1x1xi64>) -> tensor<4x1x1x150xi1>
//     %20 = kfuse.matmul %arg6, %arg7 {transpose_b} : (tensor<4x2x4x32xbf16>, tensor<4x2x150x32xbf16>) -> tensor<4x2x4x150xbf16>
//     %21 = kfuse.constant dense<0xFF80> : tensor<bf16>
//     %22 = kfuse.where %19, %20, %21 : (tensor<4x1x1x150xi1>, tensor<4x2x4x150xbf16>, tensor<bf16>) -> tensor<4x2x4x150xbf16>
//     %23 = kfuse.softmax %22 : (tensor<4x2x4x150xbf16>) -> tensor<4x2x4x150xbf16>
//     %24 = kfuse.matmul %23, %arg8 : (tensor<4x2x4x150xbf16>, tensor<4x2x150x32xbf16>) -> tensor<4x2x4x32xbf16>
//     kfuse.yield %24 : tensor<4x2x4x32xbf16>
//   }
//   return %12, %15, %16 : tensor<4x2x150x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4x2x4x32xbf16>
// }
// config: keys=16,splits=2,stages=3,warps=4
// bound on sm_90a: 0.03 us; 0.03 us for 0.160 MB, 0.00 us for 0.001 GFLOP
#include <kfuse/decode_attention.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  using Element = bf16;
  static constexpr int rows = 4, keySize = 32, valueSize = 32; // Query rows of a pair, elements of a head.
  static constexpr int keyPitch = 32, valuePitch = 32;
  static constexpr Index keys = 150;
  static constexpr int warps = 4, tileKeys = 16, stages = 3, splits = 2;
  static constexpr bool emptyIsZero = false, hasSink = false;
  static constexpr bool computesQuery = true, readsAhead = true;
  static constexpr int newKeys = 1, newValues = 1; // Written into the cache.
};

struct Body {
  const bf16 *in0;
  const bf16 *in1;
  const bf16 *in2;
  const long long *in3;
  const bf16 *in4;
  const bf16 *in5;
  bf16 *out0;
  Config::Element *newKeys;
  Config::Element *newValues;

  struct Fixed {
    long long v3;
    Index count; // Keys from the first on that may count.
    Index newKey; // Where it is written; negative where nowhere.
    Index newValue; // Where it is written; negative where nowhere.
  };
  __device__ __forceinline__ Index keyPosition(Index pair) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v2 = decode(in3[(b0)]);
    const long long v21 = wrappedProduct(v2, 67ll); // mul
    return v21 >= 0 && v21 < 150 ? Index(v21) : -Config::newKeys;
  }
  __device__ __forceinline__ Index valuePosition(Index pair) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v1 = decode(in3[(b0)]);
    const long long v3 = wrappedProduct(v1, 67ll); // mul
    return v3 >= 0 && v3 < 150 ? Index(v3) : -Config::newValues;
  }
  __device__ __forceinline__ Fixed at(Index pair) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v1 = decode(in3[b0]);
    const long long v3 = wrappedProduct(v1, 67ll); // mul
    return {v3, Index(maximum(minimum(static_cast<long long>(v3), 149ll), -1ll) + 1ll), keyPosition(pair), valuePosition(pair)};
  }

  struct QueryOperands {
    Vector<bf16, 8> v5;
    Vector<bf16, 8> v6;
    Vector<bf16, 8> v15;
    Vector<bf16, 8> v16;
  };
  __device__ __forceinline__ void loadFixedOfQuery(QueryOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
  }
  __device__ __forceinline__ void makeQuery(Config::Element *to, QueryOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    x.v5 = loadVector<8, 8>(in0 + (b0 * 384 + b1 * 128 + row * 32 + d));
    x.v6 = loadVector<8, 8>(in0 + (b0 * 384 + b1 * 128 + row * 32 + (d + 16) % 32u));
    const long long v1 = decode(in3[b0]);
    const bool v8 = v1 < 0ll; // lt
    const long long v10 = wrappedSum(v1, 9ll); // add
    const long long v11 = v8 ? v10 : v1; // where
    const long long v12 = maximum(v11, 0ll); // max
    const long long v14 = minimum(v12, 8ll); // min
    x.v15 = loadVector<8, 8>(in4 + (d % 16u + Index(v14) * 16));
    x.v16 = loadVector<8, 8>(in5 + (d % 16u + Index(v14) * 16));
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v5 = decode(x.v5[j]);
      const float v15 = decode(x.v15[j]);
      const float v21 = v5 * v15; // mul
      const long long v17 = (d + j) / 16u;
      const bool v18 = v17 == 0ll; // eq
      const float v6 = decode(x.v6[j]);
      const float v19 = -v6; // neg
      const float v20 = v18 ? v19 : v6; // where
      const float v16 = decode(x.v16[j]);
      const float v22 = v20 * v16; // mul
      const float v23 = v21 + v22; // add
      y0[j] = v23;
    }
    storeVector<8, 8>(to, y0);
  }
  __device__ __forceinline__ const Config::Element *key(Index pair, Index key) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    return in1 + (b0 * 9600 + b1 * 4800 + key * 32 + 0);
  }
  struct KeyOperands {
    Vector<bf16, 8> v0;
    Vector<bf16, 8> v1;
    Vector<bf16, 8> v11;
    Vector<bf16, 8> v12;
    Config::Element *place; // In the cache.
  };
  __device__ __forceinline__ void loadFixedOfKey(KeyOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v2 = decode(in3[(b0)]);
    const long long v21 = wrappedProduct(v2, 67ll); // mul
    x.place = newKeys + ((b0) * 9600 + (b1) * 4800 + Index(v21) * 32 + d);
  }
  __device__ __forceinline__ void makeKey(Config::Element *to, KeyOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    x.v0 = loadVector<8, 8>(in0 + ((b0) * 384 + (b1) * 32 + d + 256));
    x.v1 = loadVector<8, 8>(in0 + ((b0) * 384 + (b1) * 32 + (d + 16) % 32u + 256));
    const long long v2 = decode(in3[(b0)]);
    const bool v4 = v2 < 0ll; // lt
    const long long v6 = wrappedSum(v2, 9ll); // add
    const long long v7 = v4 ? v6 : v2; // where
    const long long v8 = maximum(v7, 0ll); // max
    const long long v10 = minimum(v8, 8ll); // min
    x.v11 = loadVector<8, 8>(in4 + (d % 16u + Index(v10) * 16));
    x.v12 = loadVector<8, 8>(in5 + (d % 16u + Index(v10) * 16));
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v11 = decode(x.v11[j]);
      const float v17 = v0 * v11; // mul
      const long long v13 = (d + j) / 16u;
      const bool v14 = v13 == 0ll; // eq
      const float v1 = decode(x.v1[j]);
      const float v15 = -v1; // neg
      const float v16 = v14 ? v15 : v1; // where
      const float v12 = decode(x.v12[j]);
      const float v18 = v16 * v12; // mul
      const float v19 = v17 + v18; // add
      y0[j] = v19;
    }
    storeVector<8, 8>(to, y0);
  }
  __device__ __forceinline__ const Config::Element *value(Index pair, Index key) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    return in2 + (b0 * 9600 + b1 * 4800 + key * 32 + 0);
  }
  struct ValueOperands {
    Vector<bf16, 8> v0;
    Config::Element *place; // In the cache.
  };
  __device__ __forceinline__ void loadFixedOfValue(ValueOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v1 = decode(in3[(b0)]);
    const long long v3 = wrappedProduct(v1, 67ll); // mul
    x.place = newValues + ((b0) * 9600 + (b1) * 4800 + Index(v3) * 32 + d);
  }
  __device__ __forceinline__ void makeValue(Config::Element *to, ValueOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    x.v0 = loadVector<8, 8>(in0 + ((b0) * 384 + (b1) * 32 + d + 320));
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      y0[j] = v0;
    }
    storeVector<8, 8>(to, y0);
  }

  __device__ __forceinline__ float score(const Fixed &fixed, float product, Index pair, int row, Index key) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v0 = key;
    const bool v4 = v0 <= fixed.v3; // le
    const float v27 = v4 ? product : (-infinity); // where
    return v27;
  }

  __device__ __forceinline__ void store(Index pair, int row, int d, const Vector<float, 4> &acc) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    Vector<float, 4> y0;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      y0[j] = acc[j];
    }
    storeVector<4, 4>(out0 + (b0 * 256 + b1 * 128 + row * 32 + d), y0);
  }
};

using Attention = DecodeAttention<Config, Body>;
extern "C" __global__ void __launch_bounds__(Config::warps * 32) kfuse_mul_rotary_rotary_state_update_state_update_attention(const bf16 *in0, const bf16 *in1, const bf16 *in2, const long long *__restrict__ in3, const bf16 *in4, const bf16 *in5, bf16 *out0, bf16 *out1, bf16 *__restrict__ out2, unsigned *tickets, Attention::Partial *partials) {
  const Body body{in0, in1, in2, in3, in4, in5, out2, out0, out1};
  Attention{body}.run(Attention::ThroughMemory{tickets, partials});
}
