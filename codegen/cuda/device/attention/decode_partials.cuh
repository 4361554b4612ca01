// What warps and blocks find in their splits of a pair's keys, and how partials become one.
#pragma once

#include <kfuse/math.cuh>

namespace kfuse {

/// A row's highest score, and the sum of its weights 2^(score - maximum).
struct DecodeHead {
  float maximum, weight;
};

/// What one split of the keys gives: the sums of a row's values times their weights.
template <int rows_, int size_> struct alignas(16) DecodePartial {
  static constexpr int rows = rows_, size = size_;
  float values[rows][size];
  DecodeHead heads[rows];
};

/// Four values of a row, of several partials.
struct DecodeSum {
  Vector<float, 4> values{};
  DecodeHead head{-infinity, 0};

  /// Everything added becomes relative to the highest maximum: they all come first.
  __device__ __forceinline__ void see(const DecodeHead &partial) {
    head.maximum = fmaxf(head.maximum, partial.maximum);
  }
  __device__ __forceinline__ void add(const DecodeHead &partial, const Vector<float, 4> &more) {
    const float factor = powerOfTwo(partial.maximum - (head.maximum == -infinity ? 0.0f : head.maximum));
    head.weight += factor * partial.weight;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[i] += factor * more[i];
  }
};

/// Calls `use(row, d, sum)` with the sum of the first `live` of `count` partials in shared memory, four values for each
/// of the block's threads.
template <class Partial, int count, int threads, class PartialAt, class Use>
__device__ __forceinline__ void addPartials(int live, PartialAt partialAt, Use use) {
  for (int at = threadIdx.x * 4; at < Partial::rows * Partial::size; at += threads * 4) {
    const int row = at / Partial::size, d = at % Partial::size;
    DecodeSum sum;
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (i < live)
        sum.see(partialAt(i).heads[row]);
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (i < live)
        sum.add(partialAt(i).heads[row], *reinterpret_cast<const Vector<float, 4> *>(&partialAt(i).values[row][d]));
    use(row, d, sum);
  }
}

} // namespace kfuse
