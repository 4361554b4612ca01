// Rows of a product that a cluster holds whole: totals over them while the accumulators are in registers.
//
// Each block of a cluster's row has some columns of the same rows, and each of its warps the same sixteen rows (of
// every 64) as that warp of the others. So warps wait for each other, not blocks: each sends its totals to its peers
// and waits for theirs, while other warpgroups multiply.
#pragma once

#include <kfuse/reduce.cuh>
#include <kfuse/warp_store.cuh>

namespace kfuse {

/// Whether a tile's column exists; known where tiles end at N.
template <class Config> __device__ __forceinline__ bool holdsColumn(typename Config::Index n) {
  return Config::N % (Config::tileN * Config::clusterColumns) == 0 || n < Config::N;
}

/// The reductions of an epilogue, each a struct that names its operation and what it loads.
template <class... Reductions> struct Steps {};

/// An epilogue with reductions over rows; its one result goes through TMA where `result` is set.
template <class Epilogue> struct ToRows {
  Epilogue epilogue;
};
template <class Epilogue> struct ToRowTiles {
  Epilogue epilogue;
  const TensorMap *result;
};
template <class Epilogue> __device__ __forceinline__ void prefetchMaps(const ToRowTiles<Epilogue> &to) {
  prefetchMap(to.result);
}

/// The last step of such an epilogue for one row, whose values it has; and for all rows of a lane.
template <class Epilogue> struct OfRow {
  using Operands = typename Epilogue::Operands;
  using Result = typename Epilogue::Result;
  using Index = typename Epilogue::Index;
  const Epilogue &epilogue;
  const typename Epilogue::Row &row;

  __device__ __forceinline__ Vector<float, 2> compute(const Operands &x, const Vector<float, 2> &accumulators,
                                                      Index batch, Index m, Index n, int lanes) const {
    return epilogue.compute(x, row, accumulators, batch, m, n, lanes);
  }
  __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 2> &accumulators, Index batch, Index m,
                                        Index n, int lanes) const {
    epilogue.apply(x, row, accumulators, batch, m, n, lanes);
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

/// The totals of the rows that one warp shares with its peers: every `lanes` neighbouring lanes have a part of the same
/// `rows`. Peers are at most one exchange ahead, so that two slots suffice: whoever sends the next but one has this
/// warp's next.
template <int peers, int lanes, int rows> struct RowExchange {
  static constexpr int groups = 32 / lanes, pairs = (rows + 1) / 2;
  static constexpr int slotBytes = peers * pairs * groups * 2 * sizeof(float);
  static constexpr int barriersAt = 2 * slotBytes, bytes = peers > 1 ? barriersAt + 16 : 0;

  unsigned memory, firstPeer, own; ///< Shared address; blocks of the cluster.
  unsigned slot = 0, parity = 0;

  static __device__ __forceinline__ void initBarriers(unsigned memory) {
    for (int i = 0; i < 2; ++i)
      initBarrier(memory + barriersAt + i * 8, 1);
  }

  /// From this lane's values to their totals over the rows: first over the lanes that share them.
  template <class Operation> __device__ __forceinline__ void reduce(float (&values)[rows]) {
#pragma unroll
    for (int i = 0; i < rows; ++i)
      values[i] = reduceLanes<Operation, lanes>(values[i]);
    if constexpr (peers > 1)
      addPeers<Operation>(values);
  }

private:
  template <class Operation> __device__ __forceinline__ void addPeers(float (&values)[rows]) {
    const int lane = threadIdx.x % 32, group = lane / lanes;
    const unsigned here = memory + slot * slotBytes, barrier = memory + barriersAt + slot * 8;
    if (lane == 0)
      arriveExpecting(barrier, slotBytes);
    __syncwarp(); // All lanes have read what the peers will overwrite next.
#pragma unroll
    for (int first = 0; first < peers; first += lanes)
      if (const int peer = first + lane % lanes; peer < peers) {
        const unsigned to = inBlock(here, firstPeer + peer), toBarrier = inBlock(barrier, firstPeer + peer);
#pragma unroll
        for (int i = 0; i < pairs; ++i)
          sendPair(to + placeOf(own, i, group), {values[2 * i], values[minimum(2 * i + 1, rows - 1)]}, toBarrier);
      }
    waitBarrier(barrier, parity);
#pragma unroll
    for (int peer = 0; peer < peers; ++peer)
#pragma unroll
      for (int i = 0; i < pairs; ++i) {
        float pair[2];
        loadPair(pair, here + placeOf(peer, i, group));
#pragma unroll
        for (int j = 0; j < 2 && 2 * i + j < rows; ++j)
          values[2 * i + j] = peer == 0 ? pair[j] : Operation::combine(values[2 * i + j], pair[j]);
      }
    parity ^= slot;
    slot ^= 1;
  }
  static __device__ __forceinline__ unsigned placeOf(int peer, int pair, int group) {
    return ((peer * pairs + pair) * groups + group) * 8;
  }
};

/// From the accumulators of wgmma, whole rows of them in the cluster, to results. `Store` finishes what the
/// reductions leave: a WarpStore, or the stores of the epilogue itself.
template <class Config, int blocks, class Store> struct WholeRows {
  using Index = typename Config::Index;
  static constexpr int columns = Config::tileColumns;
  using Exchange = RowExchange<Config::clusterColumns, 4, blocks * 2>;
  static constexpr int exchangeAt = Store::bytes, bytes = (exchangeAt + Exchange::bytes + 1023) / 1024 * 1024;

  static constexpr bool bringsTiles = false;
  static constexpr int barrierBytes = 0; ///< Those of the exchange lie beside its slots.

  Store store;
  Exchange exchange;

  __device__ __forceinline__ WholeRows(unsigned char *staged, unsigned barriers)
      : store(staged, barriers), exchange{sharedAddress(staged) + exchangeAt} {
    const unsigned rank = Config::clusterColumns > 1 ? blockInCluster() : 0;
    exchange.own = rank % Config::clusterColumns, exchange.firstPeer = rank - exchange.own;
  }
  static __device__ __forceinline__ void initBarriers(unsigned staged, unsigned) {
    if constexpr (Config::clusterColumns > 1)
      Exchange::initBarriers(staged + exchangeAt);
  }

  /// Passes over the rows load what they read.
  struct Ahead {};
  template <class To> __device__ __forceinline__ Ahead load(const To &, Index, Index, Index) const { return {}; }

  template <class To>
  __device__ __forceinline__ void finish(float (&accumulators)[blocks][columns / 2], const To &to, Ahead, Index batch,
                                         Index row, Index column) {
    using Epilogue = decltype(to.epilogue);
    const Index first = row + threadIdx.x % 32 / 4;
    typename Epilogue::Row rows[blocks][2];
    forEachRow(first, [&](int i, int half, Index m) { to.epilogue.begin(rows[i][half], batch, m); });
    forEachPair(accumulators, first, column, [&](int, int, Vector<float, 2> &pair, Index m, Index n) {
      typename Epilogue::Element::Operands x{};
      const int lanes = columnsAt<Config, 2>(n);
      if (holdsColumn<Config>(n))
        to.epilogue.load(x, batch, m, n, lanes);
      pair = to.epilogue.compute(x, pair, batch, m, n, lanes);
    });
    reduceAll(typename Epilogue::Reductions{}, accumulators, to.epilogue, rows, batch, first, column);
    const auto results = resultsOf(to, rows);
    auto ahead = store.load(results, batch, row, column);
    store.finish(accumulators, results, ahead, batch, row, column);
  }
  __device__ __forceinline__ void drain() const { store.drain(); }

private:
  template <class... Reductions, class Epilogue>
  __device__ __forceinline__ void reduceAll(Steps<Reductions...>, float (&accumulators)[blocks][columns / 2],
                                            const Epilogue &epilogue, typename Epilogue::Row (&rows)[blocks][2],
                                            Index batch, Index first, Index column) {
    (reduce<Reductions>(accumulators, epilogue, rows, batch, first, column), ...);
  }
  template <class Reduction, class Epilogue>
  __device__ __forceinline__ void reduce(float (&accumulators)[blocks][columns / 2], const Epilogue &epilogue,
                                         typename Epilogue::Row (&rows)[blocks][2], Index batch, Index first,
                                         Index column) {
    Partial<typename Reduction::Operation, float, 2> partial[blocks][2];
    forEachPair(accumulators, first, column, [&](int i, int half, const Vector<float, 2> &pair, Index m, Index n) {
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
    float totals[blocks * 2];
    forEachRow(first, [&](int i, int half, Index) { totals[i * 2 + half] = partial[i][half].total(); });
    exchange.template reduce<typename Reduction::Operation>(totals);
    forEachRow(first, [&](int i, int half, Index m) {
      epilogue.end(Reduction{}, rows[i][half], totals[i * 2 + half], batch, m);
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
  static __device__ __forceinline__ void forEachPair(float (&accumulators)[blocks][columns / 2], Index first,
                                                     Index column, Body body) {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j)
#pragma unroll
      for (int i = 0; i < blocks; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float *at = &accumulators[i][j * 4 + half * 2];
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
  __device__ __forceinline__ void finish(const float (&accumulators)[blocks][columns / 2], const Epilogue &epilogue,
                                         Ahead, Index batch, Index row, Index column) {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j)
#pragma unroll
      for (int i = 0; i < blocks * 2; ++i)
        finishPair(epilogue, ofRow(epilogue, i / 2, i % 2), &accumulators[i / 2][j * 4 + i % 2 * 2], batch,
                   row + i / 2 * 64 + i % 2 * 8 + threadIdx.x % 32 / 4, column + j * 8 + Index(threadIdx.x % 4 * 2));
  }
  __device__ __forceinline__ void drain() const {}

private:
  template <class Epilogue, class OfRow>
  static __device__ __forceinline__ void finishPair(const Epilogue &epilogue, const OfRow &ofRow,
                                                    const float *accumulators, Index batch, Index m, Index n) {
    if (!holdsColumn<Config>(n))
      return;
    const int lanes = columnsAt<Config, 2>(n);
    typename Epilogue::Operands x;
    epilogue.load(x, batch, minimum(m, Index(Config::M - 1)), n, lanes);
    if (m < Config::M)
      ofRow.apply(x, {accumulators[0], accumulators[1]}, batch, m, n, lanes);
  }
};

} // namespace kfuse
