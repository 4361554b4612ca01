// layer_norm + rotary + layer_norm + rotary + state_update + state_update + attention
// func.func @f(%arg0: tensor<1x1x6x96xbf16>, %arg1: tensor<1x2x100x96xbf16> {kfuse.role = "state"}, %arg2: tensor<1x2x100x96xbf16> {kfuse.role = "state"}, %arg3: tensor<96xbf16>, %arg4: tensor<96xbf16>, %arg5: tensor<1x1x1x48xbf16>, %arg6: tensor<1x1x1x48xbf16>, %arg7: tensor<1x1x2x96xbf16>, %arg8: tensor<1x1x2x96xbf16>, %arg9: tensor<i64>) -> (tensor<1x2x100x96xbf16>, tensor<1x2x100x96xbf16>, tensor<1x6x1x96xbf16>) attributes {fixed = array<i64: 1, 2>} {
//   %0 = kfuse.layer_norm %arg0, %arg3, %arg4 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x1x6x96xbf16>, tensor<96xbf16>, tensor<96xbf16>) -> tensor<1x1x6x96xbf16>
//   %1 = kfuse.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x1x6x96xbf16>) -> tensor<1x6x1x96xbf16>
//   %2 = kfuse.rotary %1, %arg5, %arg6 : (tensor<1x6x1x96xbf16>, tensor<1x1x1x48xbf16>, tensor<1x1x1x48xbf16>) -> tensor<1x6x1x96xbf16>
//   %3 = kfuse.layer_norm %arg7, %arg3, %arg4 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x1x2x96xbf16>, tensor<96xbf16>, tensor<96xbf16>) -> tensor<1x1x2x96xbf16>
//   %4 = kfuse.transpose %3 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x1x2x96xbf16>) -> tensor<1x2x1x96xbf16>
//   %5 = kfuse.rotary %4, %arg5, %arg6 : (tensor<1x2x1x96xbf16>, tensor<1x1x1x48xbf16>, tensor<1x1x1x48xbf16>) -> tensor<1x2x1x96xbf16>
//   %6 = kfuse.transpose %arg8 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x1x2x96xbf16>) -> tensor<1x2x1x96xbf16>
//   %7 = kfuse.state_update %arg1, %5, %arg9 {axis = 2 : i64} : (tensor<1x2x100x96xbf16>, tensor<1x2x1x96xbf16>, tensor<i64>) -> tensor<1x2x100x96xbf16>
//   %8 = kfuse.state_update %arg2, %6, %arg9 {axis = 2 : i64} : (tensor<1x2x100x96xbf16>, tensor<1x2x1x96xbf16>, tensor<i64>) -> tensor<1x2x100x96xbf16>
//   %9 = kfuse.reshape %7 : (tensor<1x2x100x96xbf16>) -> tensor<1x2x1x100x96xbf16>
//   %10 = kfuse.broadcast %9 : (tensor<1x2x1x100x96xbf16>) -> tensor<1x2x3x100x96xbf16>
//   %11 = kfuse.reshape %10 : (tensor<1x2x3x100x96xbf16>) -> tensor<1x6x100x96xbf16>
//   %12 = kfuse.reshape %8 : (tensor<1x2x100x96xbf16>) -> tensor<1x2x1x100x96xbf16>
//   %13 = kfuse.broadcast %12 : (tensor<1x2x1x100x96xbf16>) -> tensor<1x2x3x100x96xbf16>
//   %14 = kfuse.reshape %13 : (tensor<1x2x3x100x96xbf16>) -> tensor<1x6x100x96xbf16>
//   %15 = kfuse.attention %2, %11, %14 : (tensor<1x6x1x96xbf16>, tensor<1x6x100x96xbf16>, tensor<1x6x100x96xbf16>) -> tensor<1x6x1x96xbf16> {
//   ^bb0(%arg10: tensor<1x6x1x96xbf16>, %arg11: tensor<1x6x100x96xbf16>, %arg12: tensor<1x6x100x96xbf16>):
//     %16 = kfuse.matmul %arg10, %arg11 {transpose_b} : (tensor<1x6x1x96xbf16>, tensor<1x6x100x96xbf16>) -> tensor<1x6x1x100xbf16>
//     %17 = kfuse.softmax %16 : (tensor<1x6x1x100xbf16>) -> tensor<1x6x1x100xbf16>
//     %18 = kfuse.matmul %17, %arg12 : (tensor<1x6x1x100xbf16>, tensor<1x6x100x96xbf16>) -> tensor<1x6x1x96xbf16>
//     kfuse.yield %18 : tensor<1x6x1x96xbf16>
//   }
//   return %7, %8, %15 : tensor<1x2x100x96xbf16>, tensor<1x2x100x96xbf16>, tensor<1x6x1x96xbf16>
// }
// config: keys=16,splits=1,stages=2,warps=4
// bound on sm_90a: 0.02 us; 0.02 us for 0.081 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/decode_attention.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  using Element = bf16;
  static constexpr int rows = 3, keySize = 96, valueSize = 96; // Query rows of a pair, elements of a head.
  static constexpr int keyPitch = 128, valuePitch = 128;
  static constexpr Index keys = 100;
  static constexpr int warps = 4, tileKeys = 16, stages = 2, splits = 1;
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
    const long long v33 = decode(in9[0]);
    return v33 >= 0 && v33 < 100 ? Index(v33) : -Config::newKeys;
  }
  __device__ __forceinline__ Index valuePosition(Index pair) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v1 = decode(in9[0]);
    return v1 >= 0 && v1 < 100 ? Index(v1) : -Config::newValues;
  }
  __device__ __forceinline__ Fixed at(Index pair) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    return {Index(Config::keys), keyPosition(pair), valuePosition(pair)};
  }

  struct QueryOperands : OfWholeRow {
    Vector<bf16, 8> v0;
    Vector<bf16, 8> v12;
    Vector<bf16, 8> v14;
    Vector<bf16, 8> v16;
    Vector<bf16, 8> v19;
    Vector<bf16, 8> v21;
    Vector<bf16, 8> v23;
    Vector<bf16, 8> v24;
  };
  __device__ __forceinline__ void loadFixedOfQuery(QueryOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
  }
  template <class Lanes> __device__ __forceinline__ void makeQuery(Config::Element *to, QueryOperands &x, Index pair, int row, int d, Lanes lanes) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    x.v0 = loadVector<8, 8>(in0 + ((b1 * 3 + row) * 96 + d));
    x.v12 = loadVector<8, 8>(in3 + (d));
    x.v14 = loadVector<8, 8>(in4 + (d));
    x.v16 = loadVector<8, 8>(in0 + ((b1 * 3 + row) * 96 + (d + 48) % 96u));
    x.v19 = loadVector<8, 8>(in3 + ((d + 48) % 96u));
    x.v21 = loadVector<8, 8>(in4 + ((d + 48) % 96u));
    x.v23 = loadVector<8, 8>(in5 + (d % 48u));
    x.v24 = loadVector<8, 8>(in6 + (d % 48u));
    Partial<Sum, float, 8> a1;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      a1.add(j, v0);
    }
    const float v1 = lanes.total(a1); // reduce sum
    const float v3 = v1 * 0.010416667f; // mul
    Partial<Sum, float, 8> a6;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v4 = v0 - v3; // sub
      const float v5 = v4 * v4; // mul
      a6.add(j, v5);
    }
    const float v6 = lanes.total(a6); // reduce sum
    const float v7 = v6 * 0.010416667f; // mul
    const float v9 = v7 + 9.99999975e-06f; // add
    const float v10 = rsqrtf(v9); // rsqrt
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v4 = v0 - v3; // sub
      const float v11 = v4 * v10; // mul
      const float v12 = decode(x.v12[j]);
      const float v13 = v11 * v12; // mul
      const float v14 = decode(x.v14[j]);
      const float v15 = v13 + v14; // add
      const float v23 = decode(x.v23[j]);
      const float v30 = v15 * v23; // mul
      const long long v25 = (d + j) / 48u;
      const bool v27 = v25 == 0ll; // eq
      const float v16 = decode(x.v16[j]);
      const float v17 = v16 - v3; // sub
      const float v18 = v17 * v10; // mul
      const float v19 = decode(x.v19[j]);
      const float v20 = v18 * v19; // mul
      const float v21 = decode(x.v21[j]);
      const float v22 = v20 + v21; // add
      const float v28 = -v22; // neg
      const float v29 = v27 ? v28 : v22; // where
      const float v24 = decode(x.v24[j]);
      const float v31 = v29 * v24; // mul
      const float v32 = v30 + v31; // add
      y0[j] = v32;
    }
    if (lanes.exists) storeVector<8, 8>(to, y0);
  }
  __device__ __forceinline__ const Config::Element *key(Index pair, Index key) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    return in1 + ((b1 * 3) / 3u * 9600 + key * 96 + 0);
  }
  struct KeyOperands : OfWholeRow {
    Vector<bf16, 8> v0;
    Vector<bf16, 8> v12;
    Vector<bf16, 8> v14;
    Vector<bf16, 8> v16;
    Vector<bf16, 8> v19;
    Vector<bf16, 8> v21;
    Vector<bf16, 8> v23;
    Vector<bf16, 8> v24;
    Config::Element *place; // In the cache.
  };
  __device__ __forceinline__ void loadFixedOfKey(KeyOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v33 = decode(in9[0]);
    x.place = newKeys + (((b1 * 3) / 3u) * 9600 + Index(v33) * 96 + d);
  }
  template <class Lanes> __device__ __forceinline__ void makeKey(Config::Element *to, KeyOperands &x, Index pair, int row, int d, Lanes lanes) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    x.v0 = loadVector<8, 8>(in7 + (((b1 * 3) / 3u) * 96 + d));
    x.v12 = loadVector<8, 8>(in3 + (d));
    x.v14 = loadVector<8, 8>(in4 + (d));
    x.v16 = loadVector<8, 8>(in7 + (((b1 * 3) / 3u) * 96 + (d + 48) % 96u));
    x.v19 = loadVector<8, 8>(in3 + ((d + 48) % 96u));
    x.v21 = loadVector<8, 8>(in4 + ((d + 48) % 96u));
    x.v23 = loadVector<8, 8>(in5 + (d % 48u));
    x.v24 = loadVector<8, 8>(in6 + (d % 48u));
    Partial<Sum, float, 8> a1;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      a1.add(j, v0);
    }
    const float v1 = lanes.total(a1); // reduce sum
    const float v3 = v1 * 0.010416667f; // mul
    Partial<Sum, float, 8> a6;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v4 = v0 - v3; // sub
      const float v5 = v4 * v4; // mul
      a6.add(j, v5);
    }
    const float v6 = lanes.total(a6); // reduce sum
    const float v7 = v6 * 0.010416667f; // mul
    const float v9 = v7 + 9.99999975e-06f; // add
    const float v10 = rsqrtf(v9); // rsqrt
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = decode(x.v0[j]);
      const float v4 = v0 - v3; // sub
      const float v11 = v4 * v10; // mul
      const float v12 = decode(x.v12[j]);
      const float v13 = v11 * v12; // mul
      const float v14 = decode(x.v14[j]);
      const float v15 = v13 + v14; // add
      const float v23 = decode(x.v23[j]);
      const float v30 = v15 * v23; // mul
      const long long v25 = (d + j) / 48u;
      const bool v27 = v25 == 0ll; // eq
      const float v16 = decode(x.v16[j]);
      const float v17 = v16 - v3; // sub
      const float v18 = v17 * v10; // mul
      const float v19 = decode(x.v19[j]);
      const float v20 = v18 * v19; // mul
      const float v21 = decode(x.v21[j]);
      const float v22 = v20 + v21; // add
      const float v28 = -v22; // neg
      const float v29 = v27 ? v28 : v22; // where
      const float v24 = decode(x.v24[j]);
      const float v31 = v29 * v24; // mul
      const float v32 = v30 + v31; // add
      y0[j] = v32;
    }
    if (lanes.exists) storeVector<8, 8>(to, y0);
  }
  __device__ __forceinline__ const Config::Element *value(Index pair, Index key) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    return in2 + ((b1 * 3) / 3u * 9600 + key * 96 + 0);
  }
  struct ValueOperands {
    Vector<bf16, 8> v0;
    Config::Element *place; // In the cache.
  };
  __device__ __forceinline__ void loadFixedOfValue(ValueOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    const long long v1 = decode(in9[0]);
    x.place = newValues + (((b1 * 3) / 3u) * 9600 + Index(v1) * 96 + d);
  }
  __device__ __forceinline__ void makeValue(Config::Element *to, ValueOperands &x, Index pair, int row, int d) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    x.v0 = loadVector<8, 8>(in8 + (((b1 * 3) / 3u) * 96 + d));
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

  __device__ __forceinline__ void store(Index pair, int row, int d, const Vector<float, 4> &sums) const {
    const Index b0 = pair / 2u, b1 = pair % 2u;
    Vector<float, 4> y0;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      y0[j] = sums[j];
    }
    storeVector<4, 4>(out0 + ((b1 * 3 + row) * 96 + d), y0);
  }
};

using Attention = DecodeAttention<Config, Body>;
extern "C" __global__ void __launch_bounds__(Config::warps * 32) kfuse_layer_norm_rotary_layer_norm_rotary_state_update_state_updat(const bf16 *in0, const bf16 *in1, const bf16 *in2, const bf16 *in3, const bf16 *in4, const bf16 *in5, const bf16 *in6, const bf16 *in7, const bf16 *in8, const long long *in9, bf16 *out0, bf16 *out1, bf16 *__restrict__ out2) {
  waitForPredecessor();
  const Body body{in0, in1, in2, in3, in4, in5, in6, in7, in8, in9, out2, out0, out1};
  Attention{body}.run(Attention::Alone{});
}
