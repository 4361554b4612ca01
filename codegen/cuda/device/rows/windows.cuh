// Reductions of windows: every thread holds a tile of neighbouring results, which share what they read.
#pragma once

#include <kfuse/reduce.cuh>

namespace kfuse {

template <class Index> __device__ __forceinline__ bool isWithin(Index index, Index low, Index high) {
  return index >= low && index < high;
}

/// Reduces the windows of a thread's tile of Config::rows rows, and finishes them.
///
/// Rows of operands are read from the top down, each once: row `down` is row `down - h * strideDown` of the windows of
/// the tile's row h. Every result adds its taps in their order.
template <class Config, class Body> __device__ __forceinline__ void reduceWindows(const Body &body) {
  typename Body::Totals totals[Config::rows];
#pragma unroll
  for (int h = 0; h < Config::rows; ++h)
    totals[h] = Body::Totals::identity();
  constexpr int count = (Config::rows - 1) * Config::strideDown + Config::rowTaps;
  typename Body::Loaded next; // On its way while the row before is worked on.
  body.load(next, 0);
#pragma unroll(Config::unrolled ? count : 1)
  for (int down = 0; down < count; ++down) {
    typename Body::Row row;
    body.decodeRow(row, next);
    if (down + 1 < count)
      body.load(next, down + 1);
#pragma unroll
    for (int h = 0; h < Config::rows; ++h)
      if (const int rowTap = down - h * Config::strideDown; rowTap >= 0 && rowTap < Config::rowTaps)
        body.add(totals[h], row, h, rowTap);
  }
#pragma unroll
  for (int h = 0; h < Config::rows; ++h)
    body.finish(totals[h], h);
}

} // namespace kfuse
