// Matrix product on Hopper for few rows or few tiles: K is split over the blocks of a cluster and over the
// warpgroups of a block, and partial sums are added through distributed shared memory, always in the same order. Blocks
// of a cluster with the same split of K share operands by multicast.
//
// Two warps, one for each operand, keep a ring of tiles full by TMA; consumer warpgroups take every other K block.
// "Rows" are the 64-row side of the instruction: along M, or, with few tokens, along N (swapped). Two products of the
// same left operand have half of a tile's side along N each.
#pragma once

#include <kfuse/column_store.cuh>
#include <kfuse/low_bit_rows.cuh>
#include <kfuse/row_store.cuh>

namespace kfuse {

template <class Config, class Rows, class Columns, class Product> struct GemmSm90Split {
  using Index = typename Config::Index;
  using Cluster = TileCluster<Config>;
  using Stage = StageOf<Config>;
  static constexpr int rowGroups = Config::tileRows / 64, consumerThreads = rowGroups * Config::groupsK * 128;
  static constexpr int tilesK = (Config::K + Config::tileK - 1) / Config::tileK,
                       lineK = Config::tileK / Stage::columnLines, ///< What a line of the columns has of it.
      accumulatorCount = Config::tileColumns / 2;
  static constexpr int height = Config::tileRows / Rows::operands, width = Config::tileColumns / Columns::operands;
  static constexpr int clusterHeight = Cluster::tall * height, clusterWidth = Cluster::wide * width;
  static constexpr int tall = (Config::rows + clusterHeight - 1) / clusterHeight,
                       wide = (Config::columns + clusterWidth - 1) / clusterWidth;
  static constexpr int blocksK = Config::blocksK, clusterBlocks = blocksK * Cluster::blocks;
  static constexpr int vector = Config::epilogueVector;
  // Partial sums lie as [m][n], rows 8 or 4 floats apart from a multiple of 16: no bank conflicts.
  static constexpr int tileM = Config::swapped ? Config::tileColumns : Config::tileRows;
  static constexpr int tileN = Config::swapped ? Config::tileRows : Config::tileColumns;
  static constexpr int products = Rows::operands * Columns::operands, ofProduct = tileN / products;
  static constexpr int pitch = (tileN + 15) / 16 * 16 + (Config::swapped ? 4 : 8), partialBytes = tileM * pitch * 4;
  static_assert(Config::threads == consumerThreads + 64);
  // A warpgroup may wait for a stage once it has seen the stage's tile before: with an odd ring that tile is the other
  // group's, may come late, and the wait would end at the phase before it.
  static_assert(Config::stages % Config::groupsK == 0);

  /// Tiles of its own that a block brings before it fetches others' early: the ring's, if K has as many.
  static constexpr int fetchesAfter = Config::stages < tilesK / blocksK ? Config::stages : tilesK / blocksK;

  Ring<Config> ring;
  Cluster cluster{clusterBlocks > 1 ? static_cast<int>(blockInCluster()) : 0};
  int split = cluster.first / Cluster::blocks; ///< This block's, of K.
  // Tiles of the same weights are neighbours. Their blocks start together, and together ask for the weights, which go
  // ahead of the kernel before: 20 layers of five times 256 x 1024 x 1024 take 138.6 us, and 145.2 us with neighbours
  // that share activations (which all blocks ask for at once, behind their wait).
  int tile = blockIdx.x / clusterBlocks, inBatch = tile % (tall * wide), batch = tile / (tall * wide);
  int row = (Config::swapped ? inBatch / wide : inBatch % tall) * clusterHeight + cluster.row * height;
  int column = (Config::swapped ? inBatch % wide : inBatch / tall) * clusterWidth + cluster.column * width;
  int firstK = tilesK * split / blocksK, countK = tilesK * (split + 1) / blocksK - firstK;

  __device__ __forceinline__ GemmSm90Split() {
    ring.tiles = sharedAddress(dynamicShared());
    ring.barriers = ring.tiles + Config::ringBytes;
  }

  /// Whether a run that computes so many rows has none of the cluster's.
  __device__ __forceinline__ bool isPastRows(int runRows) const {
    return (Config::swapped ? column - cluster.column * width : row - cluster.row * height) >= runRows;
  }

  __device__ __forceinline__ void start(bool leads) const { ring.start(leads, rowGroups * 4 * Cluster::sharers); }

  /// A thread that brings the rows, and one that brings the columns. What is fixed goes ahead of the kernel before.
  __device__ __forceinline__ void produce(const Rows &rows) {
    if (!Rows::isFixed)
      waitForPredecessor();
#pragma unroll 1
    for (int i = 0; i < countK; ++i) {
      ring.fill(ring.rowsBytes, [&] {
        rows.template load<Config::tileRows, Cluster::wide>(ring.rows(), row, (firstK + i) * Config::tileK, batch,
                                                            cluster.column, ring.full(), cluster.sameRow());
      });
      if (i + 1 == fetchesAfter)
        rows.template fetch<Config::tileRows / Config::clusterColumns, Config::tileK>();
    }
  }
  __device__ __forceinline__ void produce(const Columns &columns) {
    if (!Columns::isFixed)
      waitForPredecessor();
#pragma unroll 1
    for (int i = 0; i < countK; ++i) {
      ring.fill(ring.columnsBytes, [&] {
#pragma unroll
        for (int line = 0; line < Stage::columnLines; ++line)
          columns.template load<Config::tileColumns, Cluster::tall>(
              ring.columns() + line * Config::tileColumns * lineBytes, column,
              (firstK + i) * Config::tileK + line * lineK, batch, cluster.row, ring.full(), cluster.sameColumn());
      });
      if (i + 1 == fetchesAfter)
        columns.template fetch<Config::tileColumns / Config::clusterRows, lineK>();
    }
  }

  /// This consumer warpgroup's 64 rows, and which of those that share them along K it is.
  const int warpgroup = warpInBlock() / 4, rowGroup = warpgroup % rowGroups,
            groupK = Config::groupsK > 1 ? warpgroup / rowGroups : 0;

  /// Its accumulators. All consumers have read their last tile then: the ring's memory is free.
  __device__ __forceinline__ void multiply(float (&accumulators)[1][accumulatorCount], const Rows &rows) {
    const StageRelease<Config> release(cluster, ring.empty(0));
    StageProducts<Config, Rows, Columns, Product, 1> products(rows, row, rowGroup * 64);
    products.ask((firstK + groupK) * Config::tileK);
    int previous = -1;
    ring.skip(groupK);
#pragma unroll 1
    for (int i = groupK; i < countK; i += Config::groupsK) {
      waitBarrier(ring.full(), ring.parity);
      if (i == groupK)
        mark(Moment::hasTile);
      const int k = (firstK + i) * Config::tileK;
      products.add(accumulators, ring.rows(), ring.columns(), k, k + Config::groupsK * Config::tileK, true);
      waitProducts<1>();
      // A stage that is not filled again is not waited for.
      if (previous >= 0 && i - Config::groupsK + Config::stages < countK)
        release(previous);
      previous = ring.stage;
      ring.advance(Config::groupsK);
    }
    waitProducts<0>();
    warpgroupFenceOperand(accumulators);
    mark(Moment::hasAccumulators);
    syncNamed(1, consumerThreads);
  }

  /// Eight columns, or fewer at the edge, that a thread finishes.
  struct Chunk {
    int m, n; ///< In the tile; its first where the thread has no such chunk.
    Index row, column;
    int lanes;
    bool exists;
  };
  __device__ __forceinline__ Chunk chunk(int number) const {
    constexpr int chunksOfRow = ofProduct / vector, chunks = tileM * chunksOfRow;
    const int place = (number * blocksK + split) * consumerThreads + threadIdx.x, at = place < chunks ? place : 0;
    Chunk chunk{at / chunksOfRow, at % chunksOfRow * vector, 0, 0, 0, false};
    chunk.row = (Config::swapped ? column : row) + chunk.m;
    chunk.column = (Config::swapped ? row : column) + chunk.n;
    chunk.lanes = columnsAt<Config, vector>(chunk.column);
    chunk.exists = place < chunks && chunk.row < Config::M && chunk.column < Config::N;
    return chunk;
  }
  static constexpr int chunksOfThread =
      (tileM * (ofProduct / vector) + blocksK * consumerThreads - 1) / (blocksK * consumerThreads);
  /// Chunks whose accumulators are on their way from other blocks together. Their operands are held while a thread
  /// still has its own accumulators: beside more than 64 of them those of four would spill.
  static constexpr int most = products == 1 && accumulatorCount <= 64 ? 4 : 2,
                       inFlight = chunksOfThread < most ? chunksOfThread : most;

  /// What the epilogue reads for chunks from `first` on.
  template <class Epilogue> struct Ahead {
    typename Epilogue::Operands x[inFlight];
  };
  template <class Epilogue>
  __device__ __forceinline__ void load(Ahead<Epilogue> &ahead, const Epilogue &epilogue, int first) const {
#pragma unroll
    for (int u = 0; u < inFlight; ++u)
      if (const Chunk at = chunk(first + u); at.exists)
        epilogue.load(ahead.x[u], batch, at.row, at.column, at.lanes);
  }

  /// Adds what the blocks and warpgroups hold of this block's share of the tile, and finishes it; `ahead` is of the
  /// first chunks.
  template <class Epilogue>
  __device__ __forceinline__ void finish(const Epilogue &epilogue, Ahead<Epilogue> &ahead) const {
#pragma unroll 1
    for (int first = 0; first < chunksOfThread; first += inFlight) {
      if (first > 0)
        load(ahead, epilogue, first);
      float accumulators[inFlight][vector * products] = {};
#pragma unroll
      for (int u = 0; u < inFlight; ++u)
        addPartials(accumulators[u], chunk(first + u));
      if (blocksK > 1 && first + inFlight >= chunksOfThread) {
        warpgroupFenceOperand(accumulators);
        doneReading();
      }
#pragma unroll
      for (int u = 0; u < inFlight; ++u)
        if (const Chunk at = chunk(first + u); at.exists) {
          Vector<float, vector * products> acc;
#pragma unroll
          for (int j = 0; j < vector * products; ++j)
            acc[j] = accumulators[u][j];
          epilogue.apply(ahead.x[u], acc, batch, at.row, at.column, at.lanes);
        }
    }
  }

  /// Puts the accumulators of the warpgroups that share this one's rows together, in the registers of the first, always
  /// in the same order. Whether this is the first.
  __device__ __forceinline__ bool addGroups(float (&accumulators)[accumulatorCount]) const {
    if constexpr (Config::groupsK == 1)
      return true;
    Vector<float, 4> *partials = reinterpret_cast<Vector<float, 4> *>(dynamicShared()) + threadIdx.x % 128;
    auto partialOf = [&](int group) {
      return partials + ((group - 1) * rowGroups + rowGroup) * (accumulatorCount / 4) * 128;
    };
    if (groupK > 0)
#pragma unroll
      for (int i = 0; i < accumulatorCount; i += 4)
        partialOf(groupK)[i / 4 * 128] = {accumulators[i], accumulators[i + 1], accumulators[i + 2],
                                          accumulators[i + 3]};
    syncNamed(1, consumerThreads);
    if (groupK > 0)
      return false;
#pragma unroll
    for (int group = 1; group < Config::groupsK; ++group)
#pragma unroll
      for (int i = 0; i < accumulatorCount; i += 4) {
        const Vector<float, 4> partial = partialOf(group)[i / 4 * 128];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          accumulators[i + j] += partial[j];
      }
    return true;
  }

  /// A consumer's whole work where a block finishes its tile alone and TMA writes it.
  template <class Epilogue> __device__ __forceinline__ void consume(const ToTiles<Epilogue> &to, const Rows &rows) {
    using Store = ColumnStore<Config>;
    constexpr int partsBytes = (Config::groupsK - 1) * Config::tileRows * Config::tileColumns * 4;
    const Index firstColumn = row + rowGroup * 64;
    typename Store::template Ahead<Epilogue> ahead;
    if (groupK == 0)
      ahead = Store::load(to, batch, column, firstColumn);
    float accumulators[1][accumulatorCount] = {};
    multiply(accumulators, rows);
    if (addGroups(accumulators[0]))
      Store{ring.tiles + partsBytes + rowGroup * Store::bytes}.finish(accumulators, to, ahead, batch, column,
                                                                      firstColumn, 2 + rowGroup);
  }

  /// The same where its lanes store their own accumulators.
  template <class Epilogue> __device__ __forceinline__ void consume(const ToRows<Epilogue> &to, const Rows &rows) {
    using Store = RowStore<Config, Columns::isPermuted>;
    const Index firstRow = row + rowGroup * 64;
    const auto ahead = Store::load(to.epilogue, batch, firstRow, column);
    float accumulators[1][accumulatorCount] = {};
    multiply(accumulators, rows);
    Store::finish(accumulators[0], to.epilogue, ahead, batch, firstRow, column);
  }

  /// All consumers' accumulators are there.
  __device__ __forceinline__ void awaitPartialSums() const {
    __syncwarp();
    if constexpr (blocksK > 1) {
      syncCluster();
    } else {
      if constexpr (clusterBlocks > 1)
        arriveAtCluster();
      __syncthreads();
    }
  }
  /// This warp reads nothing more of other blocks: what it has read is in its registers.
  __device__ __forceinline__ void doneReading() const {
    __syncwarp();
    if constexpr (blocksK > 1)
      arriveAtCluster();
  }
  /// This consumer's part of what the blocks of a cluster put together in shared memory.
  __device__ __forceinline__ void leaveSums(const Rows &rows) {
    float accumulators[1][accumulatorCount] = {};
    multiply(accumulators, rows);
    stage(accumulators[0]);
  }
  /// No block ends while others may read its accumulators, or bring it tiles. What they have read of its tiles they
  /// have told: its producers wait for all that they are told.
  __device__ __forceinline__ void leave() const {
    __syncwarp();
    if constexpr (clusterBlocks > 1)
      waitForCluster();
  }

private:
  /// Adds the sums of all splits, always in the same order.
  __device__ __forceinline__ void addPartials(float (&accumulators)[vector * products], const Chunk &at) const {
    const unsigned first = ring.tiles + (at.m * pitch + at.n) * 4;
#pragma unroll
    for (int block = 0; block < blocksK; ++block)
#pragma unroll
      for (int group = 0; group < Config::groupsK; ++group)
#pragma unroll
        for (int j = 0; j < vector * products; j += 4) {
          float partial[4];
          unsigned from = first + group * partialBytes + (j / vector * ofProduct + j % vector) * 4;
          if constexpr (blocksK > 1)
            loadCluster(partial, inBlock(from, cluster.ofSplit(block)));
          else
            loadOwn(partial, from);
#pragma unroll
          for (int u = 0; u < 4; ++u)
            accumulators[j + u] += partial[u];
        }
  }

  /// A lane holds two neighbouring columns of rows lane / 4 and lane / 4 + 8 in every eight columns.
  __device__ __forceinline__ void stage(const float (&accumulators)[accumulatorCount]) const {
    float *partial = reinterpret_cast<float *>(dynamicShared() + groupK * partialBytes);
    int r = rowGroup * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, c = threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < Config::tileColumns / 8; ++j) {
      const float *from = &accumulators[j * 4];
      if constexpr (Config::swapped) {
        float *to = partial + (j * 8 + c) * pitch + r;
        to[0] = from[0], to[pitch] = from[1], to[8] = from[2], to[pitch + 8] = from[3];
      } else {
        float *to = partial + r * pitch + j * 8 + c;
        *reinterpret_cast<Vector<float, 2> *>(to) = {from[0], from[1]};
        *reinterpret_cast<Vector<float, 2> *>(to + 8 * pitch) = {from[2], from[3]};
      }
    }
  }
};

/// Whether warpgroups finish their accumulators where they are.
template <class Epilogue> constexpr bool finishesOwn = false;
template <class Epilogue> constexpr bool finishesOwn<ToTiles<Epilogue>> = true;
template <class Epilogue> constexpr bool finishesOwn<ToRows<Epilogue>> = true;

template <class Config, class Product, class Rows, class Columns, class Epilogue>
__device__ __forceinline__ void gemmSm90Split(const Rows &rows, const Columns &columns, const Epilogue &epilogue) {
  using Kernel = GemmSm90Split<Config, Rows, Columns, Product>;
  mark(Moment::starts);
  const int producer = warpInBlock() - Kernel::consumerThreads / 32;
  const bool produces = producer >= 0, leads = producer == 0 && leadsWarp();
  if (leads)
    rows.prefetch(), columns.prefetch(), prefetchMaps(epilogue);
  Kernel kernel;
  kernel.start(leads);
  auto produce = [&] {
    if (leads)
      kernel.produce(rows);
    else if (producer == 1 && leadsWarp())
      kernel.produce(columns);
  };
  if constexpr (finishesOwn<Epilogue>) {
    if (produces) {
      produce();
    } else {
      waitForPredecessor();
      kernel.consume(epilogue, rows);
    }
    mark(Moment::ends);
    __syncwarp();
    if constexpr (Kernel::clusterBlocks > 1)
      syncClusterRelaxed(); // The same as in leave().
  } else {
    typename Kernel::template Ahead<Epilogue> ahead;
    if (produces) {
      produce();
    } else {
      waitForPredecessor();
      kernel.load(ahead, epilogue, 0);
      kernel.leaveSums(rows);
    }
    kernel.awaitPartialSums();
    if (!produces)
      kernel.finish(epilogue, ahead);
    else
      kernel.doneReading();
    mark(Moment::ends);
    kernel.leave();
  }
}

/// The same where a run computes the first `runRows` rows along M alone.
template <class Config, class Product, class Rows, class Columns, class Epilogue>
__device__ __forceinline__ void gemmSm90Split(const Rows &rows, const Columns &columns, const Epilogue &epilogue,
                                              int runRows) {
  if (GemmSm90Split<Config, Rows, Columns, Product>().isPastRows(runRows))
    return waitForPredecessor();
  gemmSm90Split<Config, Product>(rows, columns, epilogue);
}

} // namespace kfuse
