// The scalar functions of the dialect. Float functions are accurate to a few ulp where nothing else is said: nothing
// here trades accuracy for speed beyond what f32 results tolerate (1e-5), but for those of namespace `narrow`, which
// results of 8 bits of mantissa and less are made of.
#pragma once

#include <kfuse/types.cuh>

namespace kfuse {

constexpr float infinity = __builtin_bit_cast(float, 0x7f800000u);
constexpr float notANumber = __builtin_bit_cast(float, 0x7fffffffu);

__device__ __forceinline__ float maximum(float a, float b) { return maxNan(a, b); }
__device__ __forceinline__ float minimum(float a, float b) { return minNan(a, b); }
template <class T> __device__ __forceinline__ T maximum(T a, T b) { return a > b ? a : b; }
template <class T> __device__ __forceinline__ T minimum(T a, T b) { return a < b ? a : b; }

/// x as a store to memory would leave it.
template <class T> __device__ __forceinline__ float rounded(float x) {
  T stored;
  encode(stored, x);
  return decode(stored);
}

__device__ __forceinline__ float divide(float a, float b) { return divideFull(a, b); }

/// Integers wrap at the ends of their type; C++ says so of unsigned ones.
__device__ __forceinline__ unsigned bitsOf(int x) { return static_cast<unsigned>(x); }
__device__ __forceinline__ unsigned long long bitsOf(long long x) { return static_cast<unsigned long long>(x); }
template <class T> __device__ __forceinline__ T wrappedSum(T a, T b) { return static_cast<T>(bitsOf(a) + bitsOf(b)); }
template <class T> __device__ __forceinline__ T wrappedDifference(T a, T b) {
  return static_cast<T>(bitsOf(a) - bitsOf(b));
}
template <class T> __device__ __forceinline__ T wrappedProduct(T a, T b) {
  return static_cast<T>(bitsOf(a) * bitsOf(b));
}
template <class T> __device__ __forceinline__ T wrappedMinus(T x) { return static_cast<T>(0 - bitsOf(x)); }

/// What is divided by 0 gives 0, and so does its rest.
template <class T> __device__ __forceinline__ T divide(T a, T b) {
  return b == 0 ? T(0) : b == -1 ? wrappedMinus(a) : a / b;
}
__device__ __forceinline__ float reciprocal(float x) { return divideFull(1.0f, x); }

/// a - trunc(a / b) * b: the sign of a.
__device__ __forceinline__ float rest(float a, float b) { return fmodf(a, b); }
template <class T> __device__ __forceinline__ T rest(T a, T b) { return b == 0 || b == -1 ? T(0) : a % b; }
/// a - floor(a / b) * b: the sign of b.
template <class T> __device__ __forceinline__ T modulo(T a, T b) {
  const T r = rest(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/// Towards zero; what is too large or too small becomes the end of the type, NaN 0. Of NaN the instruction makes the
/// lowest number of 64 bits.
template <class T> __device__ __forceinline__ T truncated(float x);
template <> __device__ __forceinline__ int truncated<int>(float x) { return __float2int_rz(x); }
template <> __device__ __forceinline__ long long truncated<long long>(float x) { return x == x ? __float2ll_rz(x) : 0; }

__device__ __forceinline__ float magnitude(float x) { return fabsf(x); }
template <class T> __device__ __forceinline__ T magnitude(T x) { return x < 0 ? wrappedMinus(x) : x; }
__device__ __forceinline__ bool isNan(float x) { return x != x; }

/// Two instructions: within 2 + |x| ulp, the rounding of x log2(e), so 5e-6 at the ends of the range.
__device__ __forceinline__ float exponential(float x) { return powerOfTwo(x * 1.44269504f); }
__device__ __forceinline__ float sigmoid(float x) { return reciprocalNear(1.0f + exponential(-x)); }
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }
template <class T> __device__ __forceinline__ T relu(T x) { return maximum(x, T(0)); }

/// x Phi(x) = max(x, 0) - |x| Phi(-|x|), with Phi(-a) = 2^(-a^2 log2(e) / 2) t P(t) for t = 1 / (1 + 0.4 a): the form
/// of Abramowitz and Stegun 26.2.17, with a polynomial of degree 7 that interpolates at Chebyshev's points for a < 6.5
/// (relative error 6.5e-8). 17 instructions, where erff takes some 30. Within 3.4 ulp for x > -1 and 12 for
/// x > -5, where the value is -1.4e-6 (a sweep of every 61st float); no cancellation for negative x.
__device__ __forceinline__ float gelu(float x) {
  const float a = fminf(fabsf(x), 16.0f), t = reciprocalNear(fmaf(0.4f, a, 1.0f));
  float p = -0.0392006135f;
  p = fmaf(p, t, 0.198108129f);
  p = fmaf(p, t, -0.367317388f);
  p = fmaf(p, t, 0.242183604f);
  p = fmaf(p, t, -0.00517224057f);
  p = fmaf(p, t, 0.154804786f);
  p = fmaf(p, t, 0.156865348f);
  p = fmaf(p, t, 0.159728342f);
  const float tail = p * t * powerOfTwo(a * (a * -0.721347520f));
  return fmaf(-a, tail, maximum(x, 0.0f));
}
/// -2 u log2(e) with u = sqrt(2 / pi) (x + 0.044715 x^3).
__device__ __forceinline__ float geluTanhExponent(float x) { return x * fmaf(x * x, -0.102943240f, -2.30220820f); }
/// x / (1 + e^(-2 u)), which is x (1 + tanh u) / 2.
__device__ __forceinline__ float geluTanh(float x) {
  return x * reciprocalNear(1.0f + powerOfTwo(geluTanhExponent(x)));
}
/// The same, where two share a reciprocal: 1 / a = b (1 / ab). The special functions' unit, which takes as long for an
/// instruction as others for eight, then has three for two elements instead of four. Below -7.5, where the value is
/// -4e-18, it stays that, so that the product is finite; a NaN must not reach its neighbour.
template <int count> __device__ __forceinline__ Vector<float, count> geluTanh(const Vector<float, count> &x) {
  Vector<float, count> least, sums, y;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    least[j] = maximum(x[j], -7.5f);
    sums[j] = 1.0f + powerOfTwo(fminf(geluTanhExponent(least[j]), 61.0f));
  }
#pragma unroll
  for (int j = 0; j + 1 < count; j += 2) {
    const float both = reciprocalNear(sums[j] * sums[j + 1]);
    y[j] = least[j] * (both * sums[j + 1]), y[j + 1] = least[j + 1] * (both * sums[j]);
  }
  if constexpr (count % 2 == 1)
    y[count - 1] = least[count - 1] * reciprocalNear(sums[count - 1]);
  return y;
}

/// For results in bf16 or less, whose rounding (2^-9) hides errors of 2^-12.
namespace narrow {

/// x Phi(x) = max(x, 0) - |x| Phi(-|x|) with Phi(-a) = 2^q(a): q is a polynomial fitted by Remez' algorithm for a < 5,
/// whose absolute error is the result's relative one, 2^-12.6 for x > -5, where gelu is -1.4e-6. Past 5 it falls on,
/// and from 14 on the power is 0. 10 instructions, one of them of the special functions' unit, where the exact form
/// takes 17 with two of those, each of which holds it for as long as eight others take.
__device__ __forceinline__ float gelu(float x) {
  const float a = fminf(fabsf(x), 16.0f);
  float q = -0.000269918761f;
  q = fmaf(q, a, 0.00529736048f);
  q = fmaf(q, a, -0.0463193879f);
  q = fmaf(q, a, -0.466907382f);
  q = fmaf(q, a, -1.14778888f);
  q = fmaf(q, a, -1.00022829f);
  return fmaf(-a, powerOfTwo(q), maximum(x, 0.0f));
}

} // namespace narrow
} // namespace kfuse
