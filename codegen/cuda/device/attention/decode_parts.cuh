// What warps and blocks find in their parts of a pair's keys, and how parts become one.
#pragma once

#include <kfuse/math.cuh>

namespace kfuse {

/// A row's highest score, and the sum of its weights 2^(score - maximum).
struct DecodeHead {
  float maximum, weight;
};

/// Of one part of the keys: the sums of a row's values times their weights.
template <int rows_, int size_> struct alignas(16) DecodePart {
  static constexpr int rows = rows_, size = size_;
  float values[rows][size];
  DecodeHead heads[rows];
};

/// Four values of a row, of several parts.
struct DecodeSum {
  Vector<float, 4> values{};
  DecodeHead head{-infinity, 0};

  /// Everything added becomes relative to the highest maximum: they all come first.
  __device__ __forceinline__ void see(const DecodeHead &part) { head.maximum = fmaxf(head.maximum, part.maximum); }
  __device__ __forceinline__ void add(const DecodeHead &part, const Vector<float, 4> &more) {
    const float factor = powerOfTwo(part.maximum - (head.maximum == -infinity ? 0.0f : head.maximum));
    head.weight += factor * part.weight;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[i] += factor * more[i];
  }
};

/// Calls `use(row, d, sum)` with the sum of `count` parts in shared memory, four values for each of the block's
/// threads.
template <class Part, int count, int threads, class PartAt, class Use>
__device__ __forceinline__ void addParts(PartAt partAt, Use use) {
  for (int at = threadIdx.x * 4; at < Part::rows * Part::size; at += threads * 4) {
    const int row = at / Part::size, d = at % Part::size;
    DecodeSum sum;
#pragma unroll
    for (int i = 0; i < count; ++i)
      sum.see(partAt(i).heads[row]);
#pragma unroll
    for (int i = 0; i < count; ++i)
      sum.add(partAt(i).heads[row], *reinterpret_cast<const Vector<float, 4> *>(&partAt(i).values[row][d]));
    use(row, d, sum);
  }
}

} // namespace kfuse
