// rms_norm + rotary + rms_norm + rotary + state_update + state_update + attention
// func.func @f(%arg0: tensor<2x1x4x32xbf16>, %arg1: tensor<2x2x133x32xbf16> {kfuse.role = "state"}, %arg2: tensor<2x2x133x32xbf16> {kfuse.role = "state"}, %arg3: tensor<32xbf16>, %arg4: tensor<32xbf16>, %arg5: tensor<1x1x1x16xbf16>, %arg6: tensor<1x1x1x16xbf16>, %arg7: tensor<2x1x2x32xbf16>, %arg8: tensor<2x1x2x32xbf16>, %arg9: tensor<i64>) -> (tensor<2x2x133x32xbf16>, tensor<2x2x133x32xbf16>, tensor<2x4x1x32xbf16>) attributes {fixed = array<i64: 1, 2>} {
//   %0 = kfuse.rms_norm %arg0, %arg3 {epsilon = 9.99999997E-7 : f32} : (tensor<2x1x4x32xbf16>, tensor<32xbf16>) -> tensor<2x1x4x32xbf16>
//   %1 = kfuse.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x1x4x32xbf16>) -> tensor<2x4x1x32xbf16>
//   %2 = kfuse.rotary %1, %arg5, %arg6 : (tensor<2x4x1x32xbf16>, tensor<1x1x1x16xbf16>, tensor<1x1x1x16xbf16>) -> tensor<2x4x1x32xbf16>
//   %3 = kfuse.rms_norm %arg7, %arg3 {epsilon = 9.99999997E-7 : f32} : (tensor<2x1x2x32xbf16>, tensor<32xbf16>) -> tensor<2x1x2x32xbf16>
//   %4 = kfuse.transpose %3 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x1x2x32xbf16>) -> tensor<2x2x1x32xbf16>
//   %5 = kfuse.rotary %4, %arg5, %arg6 : (tensor<2x2x1x32xbf16>, tensor<1x1x1x16xbf16>, tensor<1x1x1x16xbf16>) -> tensor<2x2x1x32xbf16>
//   %6 = kfuse.transpose %arg8 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x1x2x32xbf16>) -> tensor<2x2x1x32xbf16>
//   %7 = kfuse.state_update %arg1, %5, %arg9 {axis = 2 : i64} : (tensor<2x2x133x32xbf16>, tensor<2x2x1x32xbf16>, tensor<i64>) -> tensor<2x2x133x32xbf16>
//   %8 = kfuse.state_update %arg2, %6, %arg9 {axis = 2 : i64} : (tensor<2x2x133x32xbf16>, tensor<2x2x1x32xbf16>, tensor<i64>) -> tensor<2x2x133x32xbf16>
//   %9 = kfuse.reshape %7 : (tensor<2x2x133x32xbf16>) -> tensor<2x2x1x133x32xbf16>
//   %10 = kfuse.broadcast %9 : (tensor<2x2x1x133x32xbf16>) -> tensor<2x2x2x133x32xbf16>
//   %11 = kfuse.reshape %10 : (tensor<2x2x2x133x32xbf16>) -> tensor<2x4x133x32xbf16>
//   %12 = kfuse.reshape %8 : (tensor<2x2x133x32xbf16>) -> tensor<2x2x1x133x32xbf16>
//   %13 = kfuse.broadcast %12 : (tensor<2x2x1x133x32xbf16>) -> tensor<2x2x2x133x32xbf16>
//   %14 = kfuse.reshape %13 : (tensor<2x2x2x133x32xbf16>) -> tensor<2x4x133x32xbf16>
//   %15 = kfuse.attention %2, %11, %14 : (tensor<2x4x1x32xbf16>, tensor<2x4x133x32xbf16>, tensor<2x4x133x32xbf16>) -> tensor<2x4x1x32xbf16> {
//   ^bb0(%arg10: tensor<2x4x1x32xbf16>, %arg11: tensor<2x4x133x32xbf16>, %arg12: tensor<2x4x133x32xbf16>):
//     %16 = kfuse.matmul %arg10, %arg11 {transpose_b} : (tensor<2x4x1x32xbf16>, tensor<2x4x133x32xbf16>) -> tensor<2x4x1x133xbf16>
//     %17 = kfuse.softmax %16 : (tensor<2x4x1x133xbf16>) -> tensor<2x4x1x133xbf16>
//     %18 = kfuse.matmul %17, %arg12 : (tensor<2x4x1x133xbf16>, tensor<2x4x133x32xbf16>) -> tensor<2x4x1x32xbf16>
//     kfuse.yield %18 : tensor<2x4x1x32xbf16>
//   }
//   return %7, %8, %15 : tensor<2x2x133x32xbf16>, tensor<2x2x133x32xbf16>, tensor<2x4x1x32xbf16>
// }
// config: keys=16,splits=2,stages=3,warps=4
// bound on sm_90a: 0.01 us; 0.01 us for 0.070 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/decode_attention.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  using Element = bf16;
  static constexpr int rows = 2, keySize = 32, valueSize = 32; // Query rows of a pair, elements of a head.
  static constexpr int keyPitch = 32, valuePitch = 32;
  static constexpr Index keys = 133;
  static constexpr int warps = 4, tileKeys = 16, stages = 3, splits = 2;
  static constexpr bool emptyIsZero = false, hasSink = false;
  static constexpr bool computesQuery = true, readsAhead = false;
  static constexpr int newKeys = 1, newValues = 1; // Written into the cache.
};

struct Body {
  const bf16 *in0;
  const bf16 *in1;
  const bf16 *in2;
  const bf16 *in3;
  const bf16 *in4;
  const bf16 *in5;
  const bf16 *in6;
  const bf16 *in7;
  const bf16 *in8;
  const long long *in9;
  bf16 *out0;
  Config::Element *newKeys;
  Config::Element *newValues;

  struct Fixed {
    Index count; // Keys from the first on that may count.
    Index newKey; // Where it is written; negative where nowhere.
    Index newValue; // Where it is written; negative where nowhere.
  };
  __device__ __forceinline__ Index keyPosition(Index pair) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v25 = decode(in9[0]);
    return v25 >= 0 && v25 < 133 ? Index(v25) : -Config::newKeys;
  }
  __device__ __forceinline__ Index valuePosition(Index pair) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v1 = decode(in9[0]);
    return v1 >= 0 && v1 < 133 ? Index(v1) : -Config::newValues;
  }
  __device__ __forceinline__ Fixed at(Index pair) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    return {Index(Config::keys), keyPosition(pair), valuePosition(pair)};
  }

  struct QueryOperands : OfWholeRow {
    Vector<bf16, 8> v0;
    Vector<bf16, 8> v9;
    Vector<bf16, 8> v11;
    Vector<bf16, 8> v13;
    Vector<bf16, 8> v15;
    Vector<bf16, 8> v16;
  };
  __device__ __forceinline__ void loadFixedOfQuery(QueryOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
  }
  template <class Lanes> __device__ __forceinline__ void makeQuery(Config::Element *to, QueryOperands &x, Index pair, int row, int d, Lanes lanes) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    x.v0 = loadVector<8, 8>(in0 + (b0 * 128 + (b1 * 2 + row) * 32 + d));
    x.v9 = loadVector<8, 8>(in3 + (d));
    x.v11 = loadVector<8, 8>(in0 + (b0 * 128 + (b1 * 2 + row) * 32 + (d + 16) % 32u));
    x.v13 = loadVector<8, 8>(in3 + ((d + 16) % 32u));
    x.v15 = loadVector<8, 8>(in5 + (d % 16u));
    x.v16 = loadVector<8, 8>(in6 + (d % 16u));
    Partial<Sum, float, 8> a2;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v1 = v0 * v0; // mul
      a2.add(j, v1);
    }
    const float v2 = lanes.total(a2); // reduce sum
    const float v4 = v2 * 0.03125f; // mul
    const float v6 = v4 + 9.99999997e-07f; // add
    const float v7 = rsqrtf(v6); // rsqrt
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v8 = v0 * v7; // mul
      const float v9 = decode(x.v9[j]);
      const float v10 = v8 * v9; // mul
      const float v15 = decode(x.v15[j]);
      const float v22 = v10 * v15; // mul
      const long long v17 = (d + j) / 16u;
      const bool v19 = v17 == 0ll; // eq
      const float v11 = decode(x.v11[j]);
      const float v12 = v11 * v7; // mul
      const float v13 = decode(x.v13[j]);
      const float v14 = v12 * v13; // mul
      const float v20 = -v14; // neg
      const float v21 = v19 ? v20 : v14; // where
      const float v16 = decode(x.v16[j]);
      const float v23 = v21 * v16; // mul
      const float v24 = v22 + v23; // add
      y0[j] = v24;
    }
    if (lanes.exists) storeVector<8, 8>(to, y0);
  }
  __device__ __forceinline__ const Config::Element *key(Index pair, Index key) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    return in1 + (b0 * 8512 + (b1 * 2) / 2u * 4256 + key * 32 + 0);
  }
  struct KeyOperands : OfWholeRow {
    Vector<bf16, 8> v0;
    Vector<bf16, 8> v9;
    Vector<bf16, 8> v11;
    Vector<bf16, 8> v13;
    Vector<bf16, 8> v15;
    Vector<bf16, 8> v16;
    Config::Element *place; // In the cache.
  };
  __device__ __forceinline__ void loadFixedOfKey(KeyOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v25 = decode(in9[0]);
    x.place = newKeys + ((b0) * 8512 + ((b1 * 2) / 2u) * 4256 + Index(v25) * 32 + d);
  }
  template <class Lanes> __device__ __forceinline__ void makeKey(Config::Element *to, KeyOperands &x, Index pair, int row, int d, Lanes lanes) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    x.v0 = loadVector<8, 8>(in7 + ((b0) * 64 + ((b1 * 2) / 2u) * 32 + d));
    x.v9 = loadVector<8, 8>(in3 + (d));
    x.v11 = loadVector<8, 8>(in7 + ((b0) * 64 + ((b1 * 2) / 2u) * 32 + (d + 16) % 32u));
    x.v13 = loadVector<8, 8>(in3 + ((d + 16) % 32u));
    x.v15 = loadVector<8, 8>(in5 + (d % 16u));
    x.v16 = loadVector<8, 8>(in6 + (d % 16u));
    Partial<Sum, float, 8> a2;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v1 = v0 * v0; // mul
      a2.add(j, v1);
    }
    const float v2 = lanes.total(a2); // reduce sum
    const float v4 = v2 * 0.03125f; // mul
    const float v6 = v4 + 9.99999997e-07f; // add
    const float v7 = rsqrtf(v6); // rsqrt
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v8 = v0 * v7; // mul
      const float v9 = decode(x.v9[j]);
      const float v10 = v8 * v9; // mul
      const float v15 = decode(x.v15[j]);
      const float v22 = v10 * v15; // mul
      const long long v17 = (d + j) / 16u;
      const bool v19 = v17 == 0ll; // eq
      const float v11 = decode(x.v11[j]);
      const float v12 = v11 * v7; // mul
      const float v13 = decode(x.v13[j]);
      const float v14 = v12 * v13; // mul
      const float v20 = -v14; // neg
      const float v21 = v19 ? v20 : v14; // where
      const float v16 = decode(x.v16[j]);
      const float v23 = v21 * v16; // mul
      const float v24 = v22 + v23; // add
      y0[j] = v24;
    }
    if (lanes.exists) storeVector<8, 8>(to, y0);
  }
  __device__ __forceinline__ const Config::Element *value(Index pair, Index key) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    return in2 + (b0 * 8512 + (b1 * 2) / 2u * 4256 + key * 32 + 0);
  }
  struct ValueOperands {
    Vector<bf16, 8> v0;
    Config::Element *place; // In the cache.
  };
  __device__ __forceinline__ void loadFixedOfValue(ValueOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v1 = decode(in9[0]);
    x.place = newValues + ((b0) * 8512 + ((b1 * 2) / 2u) * 4256 + Index(v1) * 32 + d);
  }
  __device__ __forceinline__ void makeValue(Config::Element *to, ValueOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    x.v0 = loadVector<8, 8>(in8 + ((b0) * 64 + ((b1 * 2) / 2u) * 32 + d));
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
    return product;
  }

  __device__ __forceinline__ void store(Index pair, int row, int d, const Vector<float, 4> &acc) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    Vector<float, 4> y0;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      y0[j] = acc[j];
    }
    storeVector<4, 4>(out0 + (b0 * 128 + (b1 * 2 + row) * 32 + d), y0);
  }
};

using Attention = DecodeAttention<Config, Body>;
extern "C" __global__ void __launch_bounds__(Config::warps * 32) kfuse_rms_norm_rotary_rms_norm_rotary_state_update_state_update_at(const bf16 *in0, const bf16 *in1, const bf16 *in2, const bf16 *in3, const bf16 *in4, const bf16 *in5, const bf16 *in6, const bf16 *in7, const bf16 *in8, const long long *in9, bf16 *out0, bf16 *out1, bf16 *__restrict__ out2, unsigned *tickets, Attention::Partial *partials) {
  waitForPredecessor();
  const Body body{in0, in1, in2, in3, in4, in5, in6, in7, in8, in9, out2, out0, out1};
  Attention{body}.run(Attention::ThroughMemory{tickets, partials});
}
