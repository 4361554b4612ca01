// Query rows that a kernel of attention computes: rotary, a norm, a cast.
#pragma once

#include <kfuse/math.cuh>
#include <kfuse/row_lanes.cuh>

namespace kfuse {

/// A warp's query rows, a few neighbouring lanes each: each computes a chunk of eight elements at a time.
template <class Config, class Body> struct ComputedQueries {
  using Index = typename Config::Index;
  using Element = typename Config::Element;
  using Operands = typename Body::QueryOperands;
  static constexpr bool needsRow = __is_base_of(OfWholeRow, Operands);
  /// Chunks of a row, and with the zeros behind them up to what an mma takes.
  static constexpr int chunks = Config::keySize / 8, filled = (chunks + 1) / 2 * 2;
  static constexpr int lanes = rowLanes(filled), rowsAtOnce = 32 / lanes;

  /// Makes `count` rows from `firstRow` on; place(row, chunk) says where a chunk of one of them lies. Rows behind the
  /// last are made of that. As many steps are loaded at a time as have operands of Config::queryOperandBytes.
  template <int count, class Place>
  static __device__ __forceinline__ void make(const Body &body, Index batch, Index firstRow, Place place) {
    constexpr int steps = count / rowsAtOnce, held = heldOf(steps);
    static_assert(count % rowsAtOnce == 0 && steps % held == 0);
    const int lane = threadIdx.x % 32, row = lane / lanes, chunk = lane % lanes, d = chunk < chunks ? chunk * 8 : 0;
#pragma unroll 1
    for (int step = 0; step < steps; step += held) {
      Operands x[held];
#pragma unroll
      for (int i = 0; i < held; ++i)
        body.loadQuery(x[i], batch, rowOf(firstRow, (step + i) * rowsAtOnce + row), d);
#pragma unroll
      for (int i = 0; i < held; ++i) {
        const int at = (step + i) * rowsAtOnce + row;
        auto *to = reinterpret_cast<Element *>(place(at, chunk));
        if constexpr (needsRow)
          body.makeQuery(to, x[i], batch, rowOf(firstRow, at), d, RowLanes<lanes>{chunk < chunks});
        else if (chunk < chunks)
          body.makeQuery(to, x[i], batch, rowOf(firstRow, at), d);
        if (filled > chunks && chunk == chunks)
          storeVector<8, 8>(to, Vector<float, 8>{});
      }
    }
  }

private:
  static __device__ constexpr int heldOf(int steps) {
    while (steps > 1 && steps * int(sizeof(Operands)) > Config::queryOperandBytes)
      steps /= 2;
    return steps;
  }
  static __device__ __forceinline__ Index rowOf(Index firstRow, int row) {
    return minimum(firstRow + row, Index(Config::rows - 1));
  }
};

} // namespace kfuse
