// Matrix product on Hopper: TMA, wgmma, persistent blocks.
//
// A block has one producer warpgroup, of which two threads, one for each operand, keep a ring of tiles full by TMA, and
// two consumer warpgroups that multiply from it. They share a tile (cooperative), or each takes every other tile and
// one multiplies while the other finishes (ping-pong). Blocks of a cluster share operands: each brings a part of a tile
// and multicasts it to those in its row or column. Blocks walk tiles until none is left, and may share the last ones
// in ping-pong (tile_walk.cuh).
//
// "Rows" are the 64-row side of the instruction, along M or along N (swapped): where weights become floats in
// registers, or where few rows of the result fill tiles of multiples of 8 better. "Columns" lie along the other. Two
// products of the same left operand (a gate and what it gates) take half of a tile's side along N each, so that a
// thread holds accumulators of both at the same places.
#pragma once

#include <kfuse/column_store.cuh>
#include <kfuse/low_bit_rows.cuh>
#include <kfuse/partial_sums.cuh>
#include <kfuse/row_epilogue.cuh>
#include <kfuse/tile_walk.cuh>
#include <kfuse/warp_store.cuh>
#include <kfuse/warp_tile.cuh>
#include <kfuse/wgmma.cuh>

namespace kfuse {

/// Whether all accumulators of a tile are finished together, in place.
template <class Finish> constexpr bool holdsRows = false;
template <class Config, int blocks, class Store> constexpr bool holdsRows<WholeRows<Config, blocks, Store>> = true;

template <class Config, class Rows, class Columns, class Product, class Finish> struct GemmSm90 {
  using Tile = ClusterTile<Config>;
  using Walk = TileWalk<Config>;
  using Index = typename Config::Index;
  using Cluster = TileCluster<Config>;
  using Stage = StageOf<Config>;
  static constexpr int consumers = 2, consumerThreads = consumers * 128;
  static constexpr int warpgroupRows = Config::pingPong ? Config::tileRows : Config::tileRows / consumers;
  static constexpr int blocks = warpgroupRows / 64, accumulatorCount = Config::tileColumns / 2;
  static constexpr int tilesK = Walk::tilesK;
  using Products = StageProducts<Config, Rows, Columns, Product, blocks>;
  /// Tiles of its own that a block brings before it fetches others' early: the ring's, if K has as many.
  static constexpr int fetchesAfter = Config::stages < tilesK ? Config::stages : tilesK;
  /// K blocks before a tile's last at which what its epilogue reads is asked for: a microsecond or more, which memory
  /// takes.
  static constexpr int broughtAhead = 4;
  static constexpr bool isStreamK = Config::streamKTiles > 0; ///< Whether blocks share tiles.
  static constexpr int stagedAt = Ring<Config>::tilesBytes;   // A multiple of 1024, as swizzles need.
  static constexpr int barriersAt = stagedAt + consumers * 4 * Finish::bytes;
  static_assert(!isStreamK || Config::pingPong);
  static_assert(warpgroupRows % 64 == 0 && Config::threads == consumerThreads + 128);
  static constexpr int lineK = Config::tileK / Stage::columnLines; ///< What a line of the columns has of K.
  static_assert(Columns::operands * Tile::blockWidth == Config::tileColumns);
  static_assert(Rows::operands * Tile::blockHeight == Config::tileRows && (Rows::operands == 1 || blocks == 2));

  Ring<Config> ring;
  Cluster cluster{Cluster::blocks > 1 ? static_cast<int>(blockInCluster()) : 0};
  int firstTile = blockIdx.x / Cluster::blocks, step = gridDim.x / Cluster::blocks;
  const int ofRun, tiles; ///< Tiles along M, and in all, that the run computes.

  __device__ __forceinline__ explicit GemmSm90(int runRows)
      : ofRun((runRows + Tile::extentM - 1) / Tile::extentM), tiles(ofRun * Tile::alongN * Config::batches) {
    ring.tiles = sharedAddress(dynamicShared());
    ring.barriers = ring.tiles + barriersAt;
  }

  /// Every consumer warp that reads a stage tells each block that writes it.
  __device__ __forceinline__ void start(bool leads) const {
    if constexpr (holdsRows<Finish> || Finish::bringsTiles)
      if (leads)
        for (int warp = 0; warp < consumers * 4; ++warp)
          Finish::initBarriers(ring.tiles + stagedAt + warp * Finish::bytes, finishBarriers(warp));
    ring.start(leads, (Config::pingPong ? 4 : 4 * consumers) * Cluster::sharers);
  }

  /// A thread that brings the rows, and one that brings the columns. What is fixed goes ahead of the kernel before.
  __device__ __forceinline__ void produce(const Rows &rows) {
    if (!Rows::isFixed)
      waitForPredecessor();
    int brought = 0;
    for (Walk walk(firstTile, step, tiles); walk.isThere(); walk.advance()) {
      const Tile tile(walk.number, ofRun);
#pragma unroll 1
      for (int k = walk.firstK; k < walk.endK; ++k) {
        ring.fill(ring.rowsBytes, [&] {
          rows.template load<Config::tileRows, Config::clusterColumns>(
              ring.rows(), tile.row + cluster.row * Tile::blockHeight, k * Config::tileK, tile.batch, cluster.column,
              ring.full(), cluster.sameRow());
        });
        if (++brought == fetchesAfter)
          rows.template fetch<Config::tileRows / Config::clusterColumns, Config::tileK>();
      }
    }
    ring.drain();
  }
  __device__ __forceinline__ void produce(const Columns &columns) {
    if (!Columns::isFixed)
      waitForPredecessor();
    int brought = 0;
    for (Walk walk(firstTile, step, tiles); walk.isThere(); walk.advance()) {
      const Tile tile(walk.number, ofRun);
#pragma unroll 1
      for (int k = walk.firstK; k < walk.endK; ++k) {
        ring.fill(ring.columnsBytes, [&] {
#pragma unroll
          for (int line = 0; line < Stage::columnLines; ++line)
            columns.template load<Config::tileColumns, Config::clusterRows>(
                ring.columns() + line * Config::tileColumns * lineBytes,
                tile.column + cluster.column * Tile::blockWidth, k * Config::tileK + line * lineK, tile.batch,
                cluster.row, ring.full(), cluster.sameColumn());
        });
        if (++brought == fetchesAfter)
          columns.template fetch<Config::tileColumns / Config::clusterRows, lineK>();
      }
    }
    ring.drain();
  }

  /// A consumer warpgroup. `partials` are for tiles that blocks share.
  template <class Epilogue>
  __device__ __forceinline__ void consume(const Rows &rows, const Epilogue &epilogue, const PartialSums &partials) {
    const int warp = warpInBlock(), warpgroup = warp / 4;
    const unsigned firstRow = Config::pingPong ? 0 : warpgroup * (warpgroupRows / Rows::operands);
    const StageRelease<Config> release(cluster, ring.empty(0));

    waitForPredecessor();
    // Ping-pong: the second warpgroup starts a tile later; a pair of barriers hands the tensor cores on.
    Walk walk(firstTile, step, tiles);
    if (Config::pingPong && warpgroup == 1) {
      leaveToOther(walk);
      arriveNamed(1, consumerThreads);
    }
    Finish finish(dynamicShared() + stagedAt + warp * Finish::bytes, finishBarriers(warp));
    float accumulators[blocks][accumulatorCount];
#pragma unroll 1
    while (walk.isThere()) {
      if constexpr (holdsRows<Finish>)
        clear(accumulators); // What the epilogue left in them would stay live, and spill, until the first product.
      const bool begun = isStreamK && walk.hasContributors();
      if constexpr (isStreamK)
        if (begun)
          takeSegments(accumulators, walk, partials);
      if (Config::pingPong)
        syncNamed(1 + warpgroup, consumerThreads);
      const int lastStage = multiply(accumulators, rows, walk, begun, firstRow, release, finish, epilogue);
      if (Config::pingPong && walk.hasNext())
        arriveNamed(2 - warpgroup, consumerThreads);
      if constexpr (isStreamK) {
        waitProducts<0>();
        release(lastStage);
        warpgroupFenceOperand(accumulators);
        if (!walk.finishes()) {
          partials.put(accumulators, placeOf(walk.firstSegment()), threadIdx.x / 32 % 4);
          advance(walk);
          continue;
        }
      }
      const Corner at = corner(walk, firstRow);
      auto ahead = finish.load(epilogue, at.batch, at.row, at.column);
      if constexpr (!isStreamK) {
        waitProducts<0>();
        release(lastStage);
        warpgroupFenceOperand(accumulators);
      }
      mark(Moment::hasAccumulators);
      advance(walk);
      finish.finish(accumulators, epilogue, ahead, at.batch, at.row, at.column);
    }
    finish.drain();
    mark(Moment::ends);
  }

private:
  /// accumulators (+)= the cluster's K blocks of a tile. Returns the stage of the last one, which is still being
  /// multiplied.
  template <class Epilogue>
  __device__ __forceinline__ int
  multiply(float (&accumulators)[blocks][accumulatorCount], const Rows &rows, const Walk &walk, bool begun,
           unsigned firstRow, const StageRelease<Config> &release, const Finish &finish, const Epilogue &epilogue) {
    const Tile tile(walk.number, ofRun);
    Products products(rows, tile.row + cluster.row * Tile::blockHeight, firstRow);
    products.ask(walk.firstK * Config::tileK);
    int previous = 0, k = walk.firstK;
    // A loop that may not be entered joins accumulators of both kinds behind it: then ptxas waits for each product.
#pragma unroll 1
    do {
      waitBarrier(ring.full(), ring.parity);
      if (k == walk.firstK)
        mark(Moment::hasTile);
      products.add(accumulators, ring.rows(), ring.columns(), k * Config::tileK, (k + 1) * Config::tileK,
                   begun || k > walk.firstK);
      waitProducts<1>();
      if (k > walk.firstK)
        release(previous);
      previous = ring.stage;
      ring.advance();
      if constexpr (Finish::bringsTiles)
        if (k == maximum(walk.firstK, walk.endK - broughtAhead) && walk.finishes()) {
          const Corner at = corner(walk, firstRow);
          finish.template bring<blocks>(epilogue, at.batch, at.row, at.column);
        }
    } while (++k < walk.endK);
    return previous;
  }

  /// To the warpgroup's next tile.
  __device__ __forceinline__ void advance(Walk &walk) {
    walk.advance();
    if (Config::pingPong)
      leaveToOther(walk);
  }
  /// In ping-pong the other warpgroup has this tile.
  __device__ __forceinline__ void leaveToOther(Walk &walk) {
    ring.skip(walk.depth());
    walk.advance();
  }

  /// A finishing warp's barriers, behind the ring's.
  __device__ __forceinline__ unsigned finishBarriers(int warp) const {
    return ring.barriers + Ring<Config>::barrierBytes + warp * Finish::barrierBytes;
  }

  /// Where this warp's part of a tile begins.
  struct Corner {
    Index batch, row, column;
  };
  __device__ __forceinline__ Corner corner(const Walk &walk, unsigned firstRow) const {
    const Tile tile(walk.number, ofRun);
    return {tile.batch, Index(tile.row + cluster.row * Tile::blockHeight + firstRow + threadIdx.x / 32 % 4 * 16),
            tile.column + cluster.column * Tile::blockWidth};
  }

  /// A segment's place among the partial sums of all.
  __device__ __forceinline__ int placeOf(int segment) const {
    return Cluster::blocks > 1 ? segment * Cluster::blocks + static_cast<int>(blockIdx.x % Cluster::blocks) : segment;
  }
  /// Begins with what contributors have left of a tile.
  __device__ __forceinline__ void takeSegments(float (&accumulators)[blocks][accumulatorCount], const Walk &walk,
                                               const PartialSums &partials) const {
    const int warp = threadIdx.x / 32 % 4, first = walk.firstSegment();
    partials.take(accumulators, placeOf(first), warp);
#pragma unroll 1
    for (int segment = first + 1; segment < first + walk.shares.segments; ++segment)
      partials.add(accumulators, placeOf(segment), warp);
  }
};

/// How a warp's accumulators become results: through the epilogue's own stores, or through TMA's; with whole rows or
/// without.
template <class Config> constexpr int blocksOf = (Config::pingPong ? Config::tileRows : Config::tileRows / 2) / 64;
template <class Config, class Epilogue> struct FinishOf {
  using Type = WarpTile<Config, Config::tileColumns, blocksOf<Config> * Config::tileColumns / 2>;
};
template <class Config, class Epilogue> struct FinishOf<Config, ToTiles<Epilogue>> {
  using Type = WarpStore<Config, Config::tileColumns>;
};
template <class Config, class Epilogue>
  requires isSwapped<Config>
struct FinishOf<Config, ToTiles<Epilogue>> {
  using Type = TransposedTiles<Config, blocksOf<Config>, Config::tileRows / Config::tileN>;
};
template <class Config, class Epilogue> struct FinishOf<Config, ToTilesFrom<Epilogue>> {
  using Type = WarpStore<Config, Config::tileColumns, /*reads=*/true>;
};
template <class Config, class Epilogue> struct FinishOf<Config, ToRowTiles<Epilogue>> {
  using Type = WholeRows<Config, blocksOf<Config>, WarpStore<Config, Config::tileColumns>>;
};
template <class Config, class Epilogue> struct FinishOf<Config, ToRows<Epilogue>> {
  using Type = WholeRows<Config, blocksOf<Config>, PairStore<Config>>;
};

template <class Config, class Product, class Rows, class Columns, class Epilogue>
__device__ __forceinline__ void gemmSm90(const Rows &rows, const Columns &columns, const Epilogue &epilogue,
                                         const PartialSums &partials = {}, int runRows = Config::M) {
  using Kernel = GemmSm90<Config, Rows, Columns, Product, typename FinishOf<Config, Epilogue>::Type>;
  mark(Moment::starts);
  const int producer = warpInBlock() - Kernel::consumerThreads / 32;
  const bool leads = producer == 0 && leadsWarp();
  if (leads)
    rows.prefetch(), columns.prefetch(), prefetchMaps(epilogue);
  Kernel kernel(runRows);
  kernel.start(leads);
  if (producer >= 0) {
    releaseRegisters<Kernel::isStreamK ? 40 : 24>(); // Segments of tiles take more to count.
    if (leads)
      kernel.produce(rows);
    else if (producer == 1 && leadsWarp())
      kernel.produce(columns);
  } else {
    claimRegisters<Kernel::isStreamK ? 232 : 240>();
    kernel.consume(rows, epilogue, partials);
  }
  __syncwarp();
  if constexpr (Kernel::Cluster::blocks > 1)
    syncClusterRelaxed(); // What blocks bring each other has come: consumers have waited for it, producers for what
                          // they read.
}

} // namespace kfuse
