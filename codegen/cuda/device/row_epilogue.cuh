// Rows of a product that blocks hold whole together, those of a cluster or of several that work side by side: totals
// over them while the sums are in registers.
//
// Each of these blocks has some columns of the same rows, and each of its warps the same sixteen rows (of every 64) as
// that warp of the others. So warps meet, not blocks: each hands its totals to its peers and waits for theirs, while
// other warpgroups multiply.
#pragma once

#include <kfuse/cluster_exchange.cuh>
#include <kfuse/grid_exchange.cuh>
#include <kfuse/warp_store.cuh>

namespace kfuse {

/// Whether a tile's column exists; known where tiles end at N.
template <class Config> __device__ __forceinline__ bool holdsColumn(typename Config::Index n) {
  return Config::N % (Config::tileN * Config::clusterColumns) == 0 || n < Config::N;
}

/// The reductions of an epilogue, each a struct that names its operation and what it loads; and two of them, the sum of
/// a row and that of its squared differences from the mean, which follows from the first.
template <class... Reductions> struct Steps {};
template <class Sum, class Squares> struct Variance {};

/// Floats of a row that its blocks exchange at a time.
template <class Reductions> constexpr int floatsOf = 1;
template <class Sum, class Squares> constexpr int floatsOf<Variance<Sum, Squares>> = 2;
template <class... Reductions>
constexpr int floatsOf<Steps<Reductions...>> = ((floatsOf<Reductions> > 1) || ...) ? 2 : 1;

/// An epilogue with reductions over rows; its one result goes through TMA where `result` is set. `totals` are for rows
/// that blocks of several clusters share.
template <class Epilogue> struct ToRows {
  Epilogue epilogue;
  SharedTotals totals;
};
template <class Epilogue> struct ToRowTiles {
  Epilogue epilogue;
  const TensorMap *result;
  SharedTotals totals;
};

/// The last step of such an epilogue for one row, whose values it has; and for all rows of a lane.
template <class Epilogue> struct OfRow {
  using Operands = typename Epilogue::Operands;
  using Result = typename Epilogue::Result;
  using Index = typename Epilogue::Index;
  const Epilogue &epilogue;
  const typename Epilogue::Row &row;

  __device__ __forceinline__ Vector<float, 2> compute(const Operands &x, const Vector<float, 2> &sums, Index batch,
                                                      Index m, Index n, int lanes) const {
    return epilogue.compute(x, row, sums, batch, m, n, lanes);
  }
  __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 2> &sums, Index batch, Index m, Index n,
                                        int lanes) const {
    epilogue.apply(x, row, sums, batch, m, n, lanes);
  }
};
template <class Epilogue, int blocks> struct OfRows {
  using Operands = typename Epilogue::Operands;
  using Result = typename Epilogue::Result;
  using Index = typename Epilogue::Index;
  const Epilogue &epilogue;
  const typename Epilogue::Row (&rows)[blocks][2];

  __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
    epilogue.load(x, batch, m, n, lanes);
  }
  static __device__ __forceinline__ int resultBatch(Index batch) { return Epilogue::resultBatch(batch); }
};
template <class Epilogue, int blocks>
__device__ __forceinline__ OfRow<Epilogue> ofRow(const OfRows<Epilogue, blocks> &epilogue, int block, int half) {
  return {epilogue.epilogue, epilogue.rows[block][half]};
}

/// How the totals of a tile's rows meet: within a cluster; or, where Config::gridColumns of them side by side hold
/// whole rows, across the grid.
template <class Config, int blocks, int floats, bool acrossGrid = (Config::gridColumns > 1)> struct RowExchange {
  using Way = ClusterExchange<Config::clusterColumns, blocks>;
  static constexpr int peers = Config::clusterColumns, bytes = Way::bytes;
  static constexpr bool mergesMoments = false; ///< Each exchange is short.

  static __device__ __forceinline__ void initBarriers(unsigned memory) {
    if constexpr (peers > 1)
      Way::initBarriers(memory);
  }
  static __device__ __forceinline__ Way make(unsigned memory, const SharedTotals &) { return Way(memory); }
};
template <class Config, int blocks, int floats> struct RowExchange<Config, blocks, floats, true> {
  static constexpr int peers = Config::gridColumns * Config::clusterColumns, bytes = 0;
  static constexpr bool mergesMoments = true;
  using Way = GridExchange<peers, blocks, floats>;
  static constexpr int clusterBlocks = Config::clusterRows * Config::clusterColumns, warps = 8;
  static_assert(Config::rasterColumns && Config::raster == Config::gridColumns, "neighbours work on the same rows");

  static __device__ __forceinline__ void initBarriers(unsigned) {}
  static __device__ __forceinline__ Way make(unsigned, const SharedTotals &totals) {
    const int rank = clusterBlocks > 1 ? blockInCluster() : 0, cluster = blockIdx.x / clusterBlocks;
    const int height = cluster / Config::gridColumns * Config::clusterRows + rank / Config::clusterColumns;
    return {totals, height * warps + static_cast<int>(threadIdx.x) / 32,
            cluster % Config::gridColumns * Config::clusterColumns + rank % Config::clusterColumns};
  }
};

/// From the accumulators of wgmma to results, where blocks hold whole rows together. `Store` finishes what the
/// reductions leave: a WarpStore, or the stores of the epilogue itself.
template <class Config, int blocks, class Store, int floats> struct WholeRows {
  using Index = typename Config::Index;
  static constexpr int columns = Config::tileColumns;
  using Exchange = RowExchange<Config, blocks, floats>;
  static constexpr int exchangeAt = Store::bytes, bytes = (exchangeAt + Exchange::bytes + 1023) / 1024 * 1024;

  static constexpr bool bringsTiles = false;
  static constexpr int barrierBytes = 0; ///< Those of the exchange lie beside its slots.

  Store store;
  typename Exchange::Way exchange;

  __device__ __forceinline__ WholeRows(unsigned char *staged, unsigned barriers, const SharedTotals &totals)
      : store(staged, barriers), exchange(Exchange::make(sharedAddress(staged) + exchangeAt, totals)) {}
  static __device__ __forceinline__ void initBarriers(unsigned staged, unsigned) {
    Exchange::initBarriers(staged + exchangeAt);
  }

  /// Passes over the rows load what they read.
  struct Ahead {};
  template <class To> __device__ __forceinline__ Ahead load(const To &, Index, Index, Index) const { return {}; }

  template <class To>
  __device__ __forceinline__ void finish(float (&sums)[blocks][columns / 2], const To &to, Ahead, Index batch,
                                         Index row, Index column) {
    using Epilogue = decltype(to.epilogue);
    const Index first = row + threadIdx.x % 32 / 4;
    typename Epilogue::Row rows[blocks][2];
    forEachRow(first, [&](int i, int half, Index m) { to.epilogue.begin(rows[i][half], batch, m); });
    forEachPair(sums, first, column, [&](int, int, Vector<float, 2> &pair, Index m, Index n) {
      typename Epilogue::Element::Operands x{};
      const int lanes = columnsAt<Config, 2>(n);
      if (holdsColumn<Config>(n))
        to.epilogue.load(x, batch, m, n, lanes);
      pair = to.epilogue.compute(x, pair, batch, m, n, lanes);
    });
    reduceAll(typename Epilogue::Reductions{}, sums, to.epilogue, rows, batch, first, column);
    const auto results = resultsOf(to, rows);
    auto ahead = store.load(results, batch, row, column);
    store.finish(sums, results, ahead, batch, row, column);
  }
  __device__ __forceinline__ void drain() const {
    if constexpr (Exchange::peers > 1)
      exchange.leave();
    store.drain();
  }

private:
  template <class... Reductions, class Epilogue>
  __device__ __forceinline__ void reduceAll(Steps<Reductions...>, float (&sums)[blocks][columns / 2],
                                            const Epilogue &epilogue, typename Epilogue::Row (&rows)[blocks][2],
                                            Index batch, Index first, Index column) {
    (reduce(Reductions{}, sums, epilogue, rows, batch, first, column), ...);
  }
  template <class Reduction, class Epilogue>
  __device__ __forceinline__ void reduce(Reduction, float (&sums)[blocks][columns / 2], const Epilogue &epilogue,
                                         typename Epilogue::Row (&rows)[blocks][2], Index batch, Index first,
                                         Index column) {
    float totals[blocks][2];
    reduceOwn<Reduction>(totals, sums, epilogue, rows, batch, first, column);
    if constexpr (Exchange::peers > 1)
      exchange.template meet<typename Reduction::Operation>(totals);
    forEachRow(first,
               [&](int i, int half, Index m) { epilogue.end(Reduction{}, rows[i][half], totals[i][half], batch, m); });
  }
  /// Both in one exchange where that takes long: differences are from the mean of the block's own columns at first.
  template <class Sum, class Squares, class Epilogue>
  __device__ __forceinline__ void reduce(Variance<Sum, Squares>, float (&sums)[blocks][columns / 2],
                                         const Epilogue &epilogue, typename Epilogue::Row (&rows)[blocks][2],
                                         Index batch, Index first, Index column) {
    if constexpr (!Exchange::mergesMoments) {
      reduce(Sum{}, sums, epilogue, rows, batch, first, column);
      reduce(Squares{}, sums, epilogue, rows, batch, first, column);
    } else {
      auto columnsFrom = [](Index at) {
        return static_cast<float>(minimum(maximum(Config::N - at, Index(0)), Index(columns)));
      };
      const float share = 1 / maximum(columnsFrom(column), 1.0f);
      float totals[blocks][2];
      Moments moments[blocks][2];
      reduceOwn<Sum>(totals, sums, epilogue, rows, batch, first, column);
      forEachRow(first, [&](int i, int half, Index m) {
        moments[i][half].mean = totals[i][half] * share;
        epilogue.end(Sum{}, rows[i][half], moments[i][half].mean * Config::N, batch, m);
      });
      reduceOwn<Squares>(totals, sums, epilogue, rows, batch, first, column);
      forEachRow(first, [&](int i, int half, Index) { moments[i][half].squares = totals[i][half]; });
      exchange.meet(moments, [&](int peer) { return columnsFrom(Index(peer) * columns); });
      forEachRow(first, [&](int i, int half, Index m) {
        epilogue.end(Sum{}, rows[i][half], moments[i][half].mean * Config::N, batch, m);
        epilogue.end(Squares{}, rows[i][half], moments[i][half].squares, batch, m);
      });
    }
  }
  /// Totals over this block's columns.
  template <class Reduction, class Epilogue>
  __device__ __forceinline__ void reduceOwn(float (&totals)[blocks][2], float (&sums)[blocks][columns / 2],
                                            const Epilogue &epilogue, const typename Epilogue::Row (&rows)[blocks][2],
                                            Index batch, Index first, Index column) {
    Partial<typename Reduction::Operation, float, 2> partial[blocks][2];
    forEachPair(sums, first, column, [&](int i, int half, const Vector<float, 2> &pair, Index m, Index n) {
      typename Reduction::Operands x{};
      const int lanes = columnsAt<Config, 2>(n);
      if (holdsColumn<Config>(n))
        epilogue.load(x, batch, m, n, lanes);
      const Vector<float, 2> y = epilogue.compute(x, rows[i][half], pair, batch, m, n, lanes);
#pragma unroll
      for (int j = 0; j < 2; ++j)
        if (holdsColumn<Config>(n + j))
          partial[i][half].add(j, y[j]);
    });
    forEachRow(first, [&](int i, int half, Index) {
      totals[i][half] = reduceLanes<typename Reduction::Operation, 4>(partial[i][half].total());
    });
  }

  /// The rows of a lane, from `first` on; past the edge, the last one.
  template <class Body> static __device__ __forceinline__ void forEachRow(Index first, Body body) {
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        body(i, half, rowAt(first, i, half));
  }
  static __device__ __forceinline__ Index rowAt(Index first, int i, int half) {
    return minimum(first + i * 64 + half * 8, Index(Config::M - 1));
  }
  /// Each two neighbours; those of all rows at a column together, which read the same vectors along N.
  template <class Body>
  static __device__ __forceinline__ void forEachPair(float (&sums)[blocks][columns / 2], Index first, Index column,
                                                     Body body) {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j)
#pragma unroll
      for (int i = 0; i < blocks; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float *at = &sums[i][j * 4 + half * 2];
          Vector<float, 2> pair{at[0], at[1]};
          body(i, half, pair, rowAt(first, i, half), column + j * 8 + Index(threadIdx.x % 4 * 2));
          at[0] = pair[0], at[1] = pair[1];
        }
  }

  template <class Epilogue>
  static __device__ __forceinline__ ToTiles<OfRows<Epilogue, blocks>>
  resultsOf(const ToRowTiles<Epilogue> &to, const typename Epilogue::Row (&rows)[blocks][2]) {
    return {{to.epilogue, rows}, to.result};
  }
  template <class Epilogue>
  static __device__ __forceinline__ OfRows<Epilogue, blocks>
  resultsOf(const ToRows<Epilogue> &to, const typename Epilogue::Row (&rows)[blocks][2]) {
    return {to.epilogue, rows};
  }
};

/// Results by the epilogue's own stores, two columns a lane: whole sectors of f32, half ones of 16 bits.
template <class Config> struct PairStore {
  using Index = typename Config::Index;
  static constexpr int columns = Config::tileColumns, bytes = 0;

  __device__ __forceinline__ PairStore(unsigned char *, unsigned) {}

  struct Ahead {};
  template <class Epilogue> __device__ __forceinline__ Ahead load(const Epilogue &, Index, Index, Index) const {
    return {};
  }
  template <class Epilogue, int blocks>
  __device__ __forceinline__ void finish(const float (&sums)[blocks][columns / 2], const Epilogue &epilogue, Ahead,
                                         Index batch, Index row, Index column) {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j)
#pragma unroll
      for (int i = 0; i < blocks * 2; ++i)
        finishPair(epilogue, ofRow(epilogue, i / 2, i % 2), &sums[i / 2][j * 4 + i % 2 * 2], batch,
                   row + i / 2 * 64 + i % 2 * 8 + threadIdx.x % 32 / 4, column + j * 8 + Index(threadIdx.x % 4 * 2));
  }
  __device__ __forceinline__ void drain() const {}

private:
  template <class Epilogue, class OfRow>
  static __device__ __forceinline__ void finishPair(const Epilogue &epilogue, const OfRow &ofRow, const float *sums,
                                                    Index batch, Index m, Index n) {
    if (!holdsColumn<Config>(n))
      return;
    const int lanes = columnsAt<Config, 2>(n);
    typename Epilogue::Operands x;
    epilogue.load(x, batch, minimum(m, Index(Config::M - 1)), n, lanes);
    if (m < Config::M)
      ofRow.apply(x, {sums[0], sums[1]}, batch, m, n, lanes);
  }
};

} // namespace kfuse
