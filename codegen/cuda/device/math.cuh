// The scalar functions of the dialect. Float functions are accurate to a few ulp: nothing here trades
// accuracy for speed beyond what f32 results tolerate (1e-5).
#pragma once

#include <kfuse/types.cuh>

namespace kfuse {

constexpr float infinity = __builtin_bit_cast(float, 0x7f800000u);
constexpr float notANumber = __builtin_bit_cast(float, 0x7fffffffu);

__device__ __forceinline__ float maximum(float a, float b) { return maxNan(a, b); }
__device__ __forceinline__ float minimum(float a, float b) { return minNan(a, b); }
template <class T> __device__ __forceinline__ T maximum(T a, T b) { return a > b ? a : b; }
template <class T> __device__ __forceinline__ T minimum(T a, T b) { return a < b ? a : b; }

__device__ __forceinline__ float divide(float a, float b) { return divideFull(a, b); }
template <class T> __device__ __forceinline__ T divide(T a, T b) { return a / b; }
__device__ __forceinline__ float reciprocal(float x) { return divideFull(1.0f, x); }

/// a - floor(a / b) * b: the sign of b.
__device__ __forceinline__ float modulo(float a, float b) {
  float rest = fmodf(a, b);
  return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
template <class T> __device__ __forceinline__ T modulo(T a, T b) {
  T rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

__device__ __forceinline__ float magnitude(float x) { return fabsf(x); }
template <class T> __device__ __forceinline__ T magnitude(T x) { return x < 0 ? -x : x; }
__device__ __forceinline__ bool isNan(float x) { return x != x; }

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ float sigmoid(float x) { return divideFull(1.0f, 1.0f + exponential(-x)); }
__device__ __forceinline__ float silu(float x) { return divideFull(x, 1.0f + exponential(-x)); }
template <class T> __device__ __forceinline__ T relu(T x) { return maximum(x, T(0)); }
__device__ __forceinline__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.707106781f)); }
__device__ __forceinline__ float geluTanh(float x) {
  return 0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x)));
}

} // namespace kfuse
