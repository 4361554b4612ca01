// Short rows of which each thread has a chunk: neighbouring lanes of a warp add up what is said of a whole row.
#pragma once

#include <kfuse/reduce.cuh>

namespace kfuse {

/// What a struct of a chunk's operands is derived from where its elements need totals of their row: a norm's.
struct OfWholeRow {};

/// `count` neighbouring lanes of a warp, a power of two, which work on one row. Those beyond the row's end, and those
/// of a row that does not exist, have operands of another chunk: they count in no total, and store nothing.
template <int count> struct RowLanes {
  bool exists; ///< Whether this lane's chunk does.

  /// The row's total in all of its lanes.
  template <class Operation, class T, int vector>
  __device__ __forceinline__ T total(const Partial<Operation, T, vector> &partial) const {
    return reduceLanes<Operation, count>(exists ? partial.total() : Operation::template identity<T>());
  }
};

/// Lanes that a row of so many chunks takes.
__device__ constexpr int rowLanes(int chunks) {
  int lanes = 1;
  while (lanes < chunks)
    lanes *= 2;
  return lanes;
}

} // namespace kfuse
