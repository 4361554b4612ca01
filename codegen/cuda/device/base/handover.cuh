// Floats that one block hands to another through memory, each its own flag: nothing to fence, and one wait instead of
// three (for the writes, for a counter, for the reads).
#pragma once

#include <kfuse/types.cuh>

namespace kfuse {

/// `count` neighbours, 2 or 4, on their way. Words of zero are not there yet, which all are before and after: floats
/// lie in memory complemented, and the one NaN that would be zero becomes another.
template <int count> struct Handover {
  unsigned words[count]{};

  static __device__ __forceinline__ void give(float *to, const Vector<float, count> &values) {
    unsigned words[count];
#pragma unroll
    for (int i = 0; i < count; ++i)
      words[i] = ~(values[i] == values[i] ? __float_as_uint(values[i]) : 0x7fffffffu);
    storeWords(to, words);
  }

  __device__ __forceinline__ bool isThere() const {
    bool all = true;
#pragma unroll
    for (int i = 0; i < count; ++i)
      all = all && words[i] != 0;
    return all;
  }
  /// Looks, where they are not there.
  __device__ __forceinline__ void look(const float *from) {
    if (!isThere())
      loadWords(words, from);
  }
  /// What is there, leaving zeros in memory and here.
  __device__ __forceinline__ Vector<float, count> take(float *from) {
    Vector<float, count> values;
#pragma unroll
    for (int i = 0; i < count; ++i)
      values[i] = __uint_as_float(~words[i]), words[i] = 0;
    *reinterpret_cast<Vector<unsigned, count> *>(from) = {};
    return values;
  }
};

} // namespace kfuse
