// Reductions over a thread's lanes, a warp and a block; the order of additions is fixed.
#pragma once

#include <kfuse/math.cuh>

namespace kfuse {

struct Sum {
  template <class T> static __device__ constexpr T identity() { return T(0); }
  template <class T> static __device__ __forceinline__ T combine(T a, T b) { return a + b; }
};
struct Times {
  template <class T> static __device__ constexpr T identity() { return T(1); }
  template <class T> static __device__ __forceinline__ T combine(T a, T b) { return a * b; }
};

template <class T> struct Range { // Of two's complement integers.
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

/// Of some values: how many, their sum, and the sum of the squares of what they are off their mean.
struct Moments {
  float count, sum, squares;
};

/// What one thread has seen so far of a row whose mean and variance are wanted. Each lane sums about the first value it
/// sees, which is within n deviations of its n values' mean: squares lose at most a factor of n of their digits.
template <int lanes> struct PartialMoments {
  float first[lanes], sums[lanes], squares[lanes];

  __device__ __forceinline__ PartialMoments() {
#pragma unroll
    for (int j = 0; j < lanes; ++j)
      first[j] = sums[j] = squares[j] = 0;
  }
  /// The value in chunk i, from 0 on.
  __device__ __forceinline__ void add(int i, int lane, float value) {
    if (i == 0)
      first[lane] = value;
    const float off = value - first[lane];
    sums[lane] += off;
    squares[lane] = fmaf(off, off, squares[lane]);
  }
  /// Of all lanes, `counts` of which have been added.
  __device__ __forceinline__ Moments total(const float (&counts)[lanes]) const {
    Moments all{0, 0, 0};
    float sum[lanes];
#pragma unroll
    for (int j = 0; j < lanes; ++j) {
      sum[j] = fmaf(counts[j], first[j], sums[j]);
      all.count += counts[j], all.sum += sum[j];
    }
#pragma unroll
    for (int j = 0; j < lanes; ++j)
      if (counts[j] > 0) {
        const float off = divide(sum[j], counts[j]) - divide(all.sum, all.count);
        all.squares += fmaf(counts[j] * off, off, squares[j] - divide(sums[j] * sums[j], counts[j]));
      }
    return all;
  }
};

/// The same total in each of `threads` neighbouring lanes of a warp (a power of two).
template <class Operation, int threads, class T> __device__ __forceinline__ T reduceLanes(T value) {
#pragma unroll
  for (int offset = threads / 2; offset > 0; offset /= 2)
    value = Operation::combine(value, shuffleXor(value, offset));
  return value;
}
template <int threads> __device__ __forceinline__ Moments joinLanes(Moments own) {
  Moments all{reduceLanes<Sum, threads>(own.count), reduceLanes<Sum, threads>(own.sum), own.squares};
  if (own.count > 0) {
    const float off = divide(own.sum, own.count) - divide(all.sum, all.count);
    all.squares = fmaf(own.count * off, off, own.squares);
  }
  all.squares = reduceLanes<Sum, threads>(all.squares);
  return all;
}

} // namespace kfuse
