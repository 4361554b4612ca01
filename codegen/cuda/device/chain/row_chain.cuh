// Layers of many rows in one launch, whose rows a cluster holds whole: products, each with what follows it, norms too.
//
// A cluster takes two tiles of rows at a time through all layers, one for each consumer warpgroup: while one
// multiplies, the other finishes (as in gemm_sm90.cuh). Each block has the same columns of every layer's result, which
// are K blocks of the next layer: it stores them, and multicasts them to the cluster when that tile's turn comes. So
// between layers rows are only in the last-level cache, and clusters have nothing to do with each other.
//
// All layers leave their results in the same rows of the last one's. They may: whoever has a tile's last K block knows
// that all have been read.
#pragma once

#include <kfuse/row_epilogue.cuh>
#include <kfuse/wgmma.cuh>

namespace kfuse {

/// What one layer has of its own.
template <int bufferCount> struct RowLayer {
  const TensorMap *weights;
  void *buffers[bufferCount]; ///< What its epilogue takes.
};

template <class Config, class Rows, class Columns, class Product, class Layers> struct RowChain {
  using Index = typename Config::Index;
  using Cluster = TileCluster<Config>;
  using Layer = RowLayer<Layers::buffers>;
  static constexpr int blocks = Config::tileRows / 64, accumulatorCount = Config::tileColumns / 2;
  using Finish = WholeRows<Config, blocks, WarpStore<Config, Config::tileColumns>>;
  static constexpr int consumers = 2, consumerThreads = consumers * 128, threads = consumerThreads + 128;
  static constexpr int tilesK = (Config::K + Config::tileK - 1) / Config::tileK;
  static constexpr int stagedAt = Ring<Config>::tilesBytes;
  static constexpr int barriersAt = stagedAt + consumers * 4 * Finish::bytes;
  static constexpr int layersAt = barriersAt + Ring<Config>::barrierBytes + consumers * 8;
  static_assert(Cluster::tall == 1 && Cluster::wide > 1 && Config::N == Config::K);
  static_assert(Config::tileColumns % Config::tileK == 0, "a K block is one block's");

  const TensorMap *first, *result; ///< The chain's rows, and its result as it is read.
  Ring<Config> ring;
  Cluster cluster{static_cast<int>(blockInCluster())};
  int firstTile = blockIdx.x / Cluster::blocks, step = gridDim.x / Cluster::blocks;
  const int tiles; ///< That the run computes.

  static __device__ __forceinline__ Layer *layers() { return reinterpret_cast<Layer *>(dynamicShared() + layersAt); }

  __device__ __forceinline__ RowChain(const TensorMap *first, const TensorMap *result, int runRows = Config::M)
      : first(first), result(result), tiles((runRows + Config::tileRows - 1) / Config::tileRows) {
    ring.tiles = sharedAddress(dynamicShared());
    ring.barriers = ring.tiles + barriersAt;
    const bool leads = threadIdx.x == 0;
    if (leads) {
      for (int warp = 0; warp < consumers * 4; ++warp)
        Finish::initBarriers(ring.tiles + stagedAt + warp * Finish::bytes, 0);
      for (int warpgroup = 0; warpgroup < consumers; ++warpgroup)
        initBarrier(isStored(warpgroup), 4);
    }
    __syncthreads(); // Layers are in shared memory.
    ring.start(leads, 4 * Cluster::sharers);
  }

  /// `toTiles` is what the epilogue's results go through.
  template <class ToTiles> __device__ __forceinline__ void run(const ToTiles &toTiles) {
    const int producer = warpInBlock() - consumerThreads / 32;
    if (producer >= 0) {
      releaseRegisters<40>();
      if (producer == 0 && leadsWarp())
        bringRows();
      else if (producer == 1 && leadsWarp())
        bringColumns();
    } else {
      claimRegisters<232>();
      consume(toTiles);
    }
    __syncwarp();
    syncClusterRelaxed(); // What blocks bring each other has come, as in gemm_sm90.cuh.
  }

private:
  /// Results of the warpgroup's tile are in memory, this block's columns of them.
  __device__ __forceinline__ unsigned isStored(int warpgroup) const {
    return ring.barriers + Ring<Config>::barrierBytes + warpgroup * 8;
  }
  /// The block that has computed a K block, and brings it.
  static __device__ __forceinline__ int ownerOf(int kBlock) { return kBlock * Config::tileK / Config::tileColumns; }

  /// Every tile of every layer in the order in which they are multiplied: `visit(tile, layer, warpgroup)`.
  template <class Visit> __device__ __forceinline__ void forEachTile(Visit visit) const {
#pragma unroll 1
    for (int pair = firstTile; pair < tiles; pair += consumers * step)
#pragma unroll 1
      for (int layer = 0; layer < Layers::count; ++layer)
#pragma unroll 1
        for (int warpgroup = 0; warpgroup < consumers; ++warpgroup)
          if (const int tile = pair + warpgroup * step; tile < tiles)
            visit(tile, layer, warpgroup);
  }

  __device__ __forceinline__ void bringRows() {
    waitForPredecessor();
    unsigned parities = 0; ///< Bit i is isStored(i)'s.
    forEachTile([&](int tile, int layer, int warpgroup) {
      if (layer > 0) {
        waitBarrier(isStored(warpgroup), parities >> warpgroup & 1);
        parities ^= 1u << warpgroup;
        fenceGlobalForTma();
      }
#pragma unroll 1
      for (int k = 0; k < tilesK; ++k)
        ring.fill(ring.rowsBytes, [&] {
          if (ownerOf(k) == cluster.column)
            loadBoxMulticast(ring.rows(), layer == 0 ? first : result, k * Config::tileK, tile * Config::tileRows, 0,
                             ring.full(), cluster.sameRow());
        });
    });
    ring.drain();
  }
  __device__ __forceinline__ void bringColumns() {
    if (!Columns::isFixed)
      waitForPredecessor();
    forEachTile([&](int, int layer, int) {
      const Side<Columns> weights{layers()[layer].weights};
#pragma unroll 1
      for (int k = 0; k < tilesK; ++k)
        ring.fill(ring.columnsBytes, [&] {
          weights.template load<Config::tileColumns, 1>(ring.columns(), cluster.column * Config::tileColumns,
                                                        k * Config::tileK, 0, 0, ring.full(), 0);
        });
    });
    ring.drain();
  }

  /// A consumer warpgroup.
  template <class ToTiles> __device__ __forceinline__ void consume(ToTiles toTiles) {
    const int warp = warpInBlock(), warpgroup = warp / 4;
    const StageRelease<Config> release(cluster, ring.empty(0));
    waitForPredecessor();
    // The second warpgroup starts a tile later; a pair of barriers hands the tensor cores on.
    if (warpgroup == 1) {
      ring.skip(tilesK);
      arriveNamed(1, consumerThreads);
    }
    Finish finish(dynamicShared() + stagedAt + warp * Finish::bytes, 0);
    float accumulators[blocks][accumulatorCount];
#pragma unroll 1
    for (int pair = firstTile; pair + warpgroup * step < tiles; pair += consumers * step) {
      const bool isPaired = pair + step < tiles, isLast = pair + consumers * step >= tiles;
#pragma unroll 1
      for (int layer = 0; layer < Layers::count; ++layer) {
        clear(accumulators); // What the epilogue left in them would stay live, and spill, until the first product.
        if (isPaired || layer == 0)
          syncNamed(1 + warpgroup, consumerThreads);
        const int last = multiply(accumulators, release);
        if (warpgroup == 0 ? isPaired : !isLast || layer + 1 < Layers::count)
          arriveNamed(2 - warpgroup, consumerThreads);
        waitProducts<0>();
        release(last);
        warpgroupFenceOperand(accumulators);
        mark(Moment::hasAccumulators);
        if (isPaired)
          ring.skip(tilesK);
        toTiles.epilogue = Layers::epilogue(layers()[layer].buffers);
        finish.finish(accumulators, toTiles, {}, 0, Index((pair + warpgroup * step) * Config::tileRows + warp % 4 * 16),
                      Index(cluster.column * Config::tileColumns));
        if (layer + 1 < Layers::count && leadsWarp()) {
          waitStored();
          arrive(isStored(warpgroup));
        }
      }
    }
    finish.drain();
    mark(Moment::ends);
  }

  /// The products of a tile, of which the last are under way: the stage that they read.
  __device__ __forceinline__ int multiply(float (&accumulators)[blocks][accumulatorCount],
                                          const StageRelease<Config> &release) {
    int previous = 0;
#pragma unroll 1
    for (int k = 0; k < tilesK; ++k) {
      waitBarrier(ring.full(), ring.parity);
      if (k == 0)
        mark(Moment::hasTile);
      multiplyTile<Rows, Columns, Product>(accumulators, ring.rows(), ring.columns(), k > 0);
      waitProducts<1>();
      if (k > 0)
        release(previous);
      previous = ring.stage;
      ring.advance();
    }
    return previous;
  }
};

} // namespace kfuse
