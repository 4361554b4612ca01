// Reductions over a dimension that is not the dense one: every thread adds up a few neighbouring columns.
#pragma once

#include <kfuse/reduce.cuh>

namespace kfuse {

/// Reduces Config::rows rows to Totals of `Config::vector` columns a thread, and finishes them.
///
/// A block has Config::lanes threads side by side and Config::groups of them below each other, which take
/// every groups-th row; blockIdx.y splits the rows further. The block of a tile that arrives last adds the
/// others' totals from the workspace. All additions happen in an order that does not depend on who is first.
template <class Config, class Body> struct ColumnReduction {
  using Index = typename Config::Index;
  using Totals = typename Body::Totals;
  static constexpr Index tiles =
      (Config::columns + Config::lanes * Config::vector - 1) / (Config::lanes * Config::vector);
  static constexpr Index rowsOfSplit = (Config::rows + Config::splits - 1) / Config::splits;

  const Body &body;
  int lane = threadIdx.x % Config::lanes, group = threadIdx.x / Config::lanes;
  Index batch = Index(blockIdx.x) / tiles;
  Index column = (Index(blockIdx.x) % tiles * Config::lanes + lane) * Config::vector;
  bool valid = column < Config::columns;

  /// The block's first column.
  __device__ __forceinline__ Index first() const { return column - lane * Config::vector; }

  /// This thread's rows of this block's split.
  __device__ __forceinline__ Totals reduceRows() const {
    Totals totals = Totals::identity();
    const Index end = minimum((Index(blockIdx.y) + 1) * rowsOfSplit, Index(Config::rows));
    if (!valid)
      return totals;
    constexpr Index step = Config::groups;
    Index row = Index(blockIdx.y) * rowsOfSplit + group;
    for (; row + (Config::unroll - 1) * step < end; row += Config::unroll * step) {
      typename Body::Operands x[Config::unroll];
#pragma unroll
      for (int u = 0; u < Config::unroll; ++u)
        body.load(x[u], batch, column, row + u * step);
#pragma unroll
      for (int u = 0; u < Config::unroll; ++u)
        body.add(totals, x[u], batch, column, row + u * step);
    }
#pragma unroll 1
    for (; row < end; row += step) {
      typename Body::Operands x;
      body.load(x, batch, column, row);
      body.add(totals, x, batch, column, row);
    }
    return totals;
  }

  /// The totals of all groups, in group 0.
  __device__ __forceinline__ Totals reduceGroups(Totals totals) const {
    __shared__ Totals shared[Config::groups][Config::lanes];
    if (group > 0)
      shared[group][lane] = totals;
    __syncthreads();
    if (group == 0)
#pragma unroll
      for (int g = 1; g < Config::groups; ++g)
        totals.merge(shared[g][lane]);
    return totals;
  }

  /// Leaves this block's totals in the workspace; whether all other blocks of the tile have done so.
  __device__ __forceinline__ bool isLast(const Totals &totals, unsigned *arrivals, Totals *partials) const {
    __shared__ unsigned before;
    if (group == 0)
      partials[(Index(blockIdx.x) * Config::splits + Index(blockIdx.y)) * Config::lanes + lane] = totals;
    __syncthreads();
    if (threadIdx.x == 0)
      before = countArrival(arrivals + blockIdx.x);
    __syncthreads();
    return before == Config::splits - 1;
  }

  __device__ __forceinline__ Totals reduceSplits(const Totals *partials) const {
    Totals totals = Totals::identity();
    constexpr int count = (Config::splits + Config::groups - 1) / Config::groups;
#pragma unroll(count < 8 ? count : 8)
    for (int i = 0; i < count; ++i)
      if (int split = i * Config::groups + group; split < Config::splits)
        totals.merge(partials[(Index(blockIdx.x) * Config::splits + split) * Config::lanes + lane]);
    return reduceGroups(totals);
  }

  __device__ __forceinline__ void run(unsigned *arrivals, Totals *partials) const {
    Totals totals = reduceGroups(reduceRows());
    if constexpr (Config::splits > 1) {
      if (!isLast(totals, arrivals, partials))
        return;
      totals = reduceSplits(partials);
      if (threadIdx.x == 0)
        arrivals[blockIdx.x] = 0;
    }
    if (group == 0 && valid)
      body.finish(totals, batch, column);
  }
};

} // namespace kfuse
