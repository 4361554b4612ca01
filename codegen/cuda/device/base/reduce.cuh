// Reductions over a thread's lanes, a warp and a block; the order of additions is fixed.
#pragma once

#include <kfuse/math.cuh>

namespace kfuse {

struct Sum {
  template <class T> static __device__ constexpr T identity() { return T(0); }
  template <class T> static __device__ __forceinline__ T combine(T a, T b) { return a + b; }
};

template <class T> struct Range { // Two's complement integers.
  static constexpr T lowest = T(1ull << (8 * sizeof(T) - 1)), highest = T(~lowest);
};
template <> struct Range<float> {
  static constexpr float lowest = -infinity, highest = infinity;
};
template <> struct Range<bool> {
  static constexpr bool lowest = false, highest = true;
};
struct Maximum {
  template <class T> static __device__ constexpr T identity() { return Range<T>::lowest; }
  template <class T> static __device__ __forceinline__ T combine(T a, T b) { return maximum(a, b); }
};
struct Minimum {
  template <class T> static __device__ constexpr T identity() { return Range<T>::highest; }
  template <class T> static __device__ __forceinline__ T combine(T a, T b) { return minimum(a, b); }
};

/// What one thread has reduced so far: an accumulator for each lane, so that additions do not wait
/// for each other and rounding errors grow with the row's length over threads and lanes.
template <class Operation, class T, int lanes> struct Partial {
  T values[lanes];

  __device__ __forceinline__ Partial() {
#pragma unroll
    for (int j = 0; j < lanes; ++j)
      values[j] = Operation::template identity<T>();
  }
  __device__ __forceinline__ void add(int lane, T value) { values[lane] = Operation::combine(values[lane], value); }
  __device__ __forceinline__ T total() const {
    T sums[lanes];
#pragma unroll
    for (int j = 0; j < lanes; ++j)
      sums[j] = values[j];
#pragma unroll
    for (int width = lanes / 2; width > 0; width /= 2)
#pragma unroll
      for (int j = 0; j < width; ++j)
        sums[j] = Operation::combine(sums[j], sums[j + width]);
    return sums[0];
  }
};

/// Two sums of the same values on their way together.
struct Moments {
  float sum, squares;
};
struct AddMoments {
  static __device__ __forceinline__ Moments combine(Moments a, Moments b) {
    return {a.sum + b.sum, a.squares + b.squares};
  }
};
__device__ __forceinline__ Moments shuffleXor(Moments value, int mask) {
  return {shuffleXor(value.sum, mask), shuffleXor(value.squares, mask)};
}

/// The same total in each of `threads` neighbouring lanes of a warp (a power of two).
template <class Operation, int threads, class T> __device__ __forceinline__ T reduceLanes(T value) {
#pragma unroll
  for (int offset = threads / 2; offset > 0; offset /= 2)
    value = Operation::combine(value, shuffleXor(value, offset));
  return value;
}

} // namespace kfuse
