// Chains within clusters: the blocks of a cluster hold whole rows, a tile of columns each, and have nothing to do with
// other clusters. A block multicasts the tile that it has computed, some K blocks of the next layer, to all of its
// cluster; it does so through the L2, which one block's traffic loads but little, where shared memory of one block to
// that of the others would take a multiple of the time.
//
// A stage of the ring is full when this block's weights have come and its tokens, from whoever computed that K block.
// Before they may come, all blocks tell that one that the stage is free and expects them (`awaitsTokens`).
#pragma once

#include <kfuse/chain.cuh>

namespace kfuse {

template <class Config, class Layers> struct ClusterChain : ChainBlock<Config, Layers> {
  using Block = ChainBlock<Config, Layers>;
  using Block::consumerThreads;
  using Block::kBlocksOfTile;
  using Block::layers;
  using Block::ring;
  using typename Block::Place;
  using typename Block::Values;
  template <class Layer> static constexpr int kBlocks = Block::template kBlocks<Layer>;
  static constexpr int blocks = Config::clusterColumns;
  static constexpr int rowBlocks = (Config::M + Config::tileColumns - 1) / Config::tileColumns;
  using Exchange = RowExchange<blocks, Block::chunksOfRow, Block::chunksOfThread>; ///< A consumer warp's.

  int rank = blockInCluster(), unit = blockIdx.x / blocks;
  Place place{unit / rowBlocks, unit % rowBlocks, rank};
  unsigned awaitedParities = 0, writtenParity = 0; ///< Parities of the next phases, for `awaitsTokens` a bit a stage.
  Exchange exchange{exchangeOf(threadIdx.x / 32), 0, static_cast<unsigned>(rank)};

  /// The first row of this cluster.
  static __device__ __forceinline__ int firstRow() {
    return int(blockIdx.x) / blocks % rowBlocks * Config::tileColumns;
  }

  __device__ __forceinline__ ClusterChain() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Config::stages; ++i) {
        initBarrier(ring.barriers + i * 8, 1), initBarrier(ring.empty(i), Block::rowGroups * 4);
        initBarrier(awaitsTokens(i), blocks);
      }
      initBarrier(kBlocksAreWritten(), 1);
      for (int warp = 0; Layers::reducesRows && warp < Block::weightsWarp; ++warp)
        Exchange::initBarriers(exchangeOf(warp));
      fenceBarrierInit();
    }
    __syncwarp();
    syncClusterRelaxed();
  }

  //===- Weights: one thread ---------------------------------------------------------------------//

  template <class Layer> __device__ __forceinline__ void streamWeights(const Values &layer) {
#pragma unroll 1
    for (int kBlock = 0; kBlock < kBlocks<Layer>; ++kBlock, ring.advance()) {
      waitBarrier(ring.empty(ring.stage), ring.parity ^ 1);
      arriveExpecting(ring.full(), ring.stageBytes);
      Block::template forEachBox<typename Layer::Weights>(
          place, kBlock * Config::tileK, [&](int row, int x, int y, int batch) {
            loadBox(ring.rows() + row * lineBytes, layer.weights, x, y, batch, ring.full());
          });
      arriveInCluster(inBlock(awaitsTokens(ring.stage), ownerOf(kBlock)));
    }
  }

  /// Has what this block will read of a layer's weights brought to the L2, together with the other blocks that do.
  template <class Layer> __device__ __forceinline__ void prefetchWeights(const Values &layer) const {
#pragma unroll 1
    for (int kBlock = place.rowBlock; kBlock < kBlocks<Layer>; kBlock += rowBlocks)
      Block::template forEachBox<typename Layer::Weights>(
          place, kBlock * Config::tileK, [&](int, int x, int y, int batch) { fetchBox(layer.weights, x, y, batch); });
  }

  //===- Tokens: one thread ----------------------------------------------------------------------//

  /// Brings the K blocks that this block has computed to all blocks, each to a stage that is free there.
  template <class Layer> __device__ __forceinline__ void shareTokens(const Values &layer, int number) {
    if (number > 0 && makesKBlock<kBlocks<Layer>>())
      waitBarrier(kBlocksAreWritten(), writtenParity), writtenParity ^= 1;
#pragma unroll 1
    for (int kBlock = 0; kBlock < kBlocks<Layer>; ++kBlock, ring.advance())
      if (ownerOf(kBlock) == rank) {
        waitBarrier(awaitsTokens(ring.stage), awaitedParities >> ring.stage & 1);
        awaitedParities ^= 1u << ring.stage;
        loadBoxMulticast(ring.columns(), layer.tokens, kBlock * Config::tileK, place.rowBlock * Config::tileColumns,
                         Layer::Tokens::batch(place.batch), ring.full(), (1u << blocks) - 1);
      }
  }

  //===- Products: the other warps ---------------------------------------------------------------//

  template <class Layer> __device__ __forceinline__ void multiply(const Values &layer, int number) {
    auto release = [&](int stage) {
      if (threadIdx.x % 32 == 0)
        arrive(ring.empty(stage));
    };
    if constexpr (Layer::reducesRows)
      Block::template multiplyRows<Layer>(layer, place, release, exchange);
    else
      Block::template multiply<Layer>(layer, place, release);
    // All consumers have written their part of the tile: the thread that brings it to the others may read it.
    fenceGlobalForTma();
    syncNamed(1, consumerThreads); // The partial sums' memory may be written again, too.
    if (threadIdx.x == 0 && number + 1 < Layers::count && makesKBlock<(Layer::N + Config::tileK - 1) / Config::tileK>())
      arrive(kBlocksAreWritten());
    mark(Moment::ends);
  }

private:
  /// All blocks await the K block that this block brings to a stage.
  __device__ __forceinline__ unsigned awaitsTokens(int stage) const {
    return ring.barriers + Ring<Config>::barrierBytes + stage * 8;
  }
  __device__ __forceinline__ unsigned kBlocksAreWritten() const { return awaitsTokens(Config::stages); }

  static __device__ __forceinline__ unsigned exchangeOf(int warp) {
    return sharedAddress(dynamicShared()) + Config::exchangeOffset + warp * Exchange::bytes;
  }

  /// The block that brings a K block: who has computed it, or would have.
  static __device__ __forceinline__ int ownerOf(int kBlock) { return kBlock / kBlocksOfTile % blocks; }
  template <int kBlockCount> __device__ __forceinline__ bool makesKBlock() const {
    return rank * kBlocksOfTile < kBlockCount;
  }

  //===- Roles -----------------------------------------------------------------------------------//

  struct StreamWeights {
    template <class Layer> static __device__ __forceinline__ void run(ClusterChain &chain, int number) {
      chain.template streamWeights<Layer>(layers()[number]);
    }
  };
  struct PrefetchWeights {
    template <class Layer> static __device__ __forceinline__ void run(ClusterChain &chain, int number) {
      chain.template prefetchWeights<Layer>(layers()[number]);
    }
  };
  struct ShareTokens {
    template <class Layer> static __device__ __forceinline__ void run(ClusterChain &chain, int number) {
      chain.template shareTokens<Layer>(layers()[number], number);
    }
  };
  struct Compute {
    template <class Layer> static __device__ __forceinline__ void run(ClusterChain &chain, int number) {
      chain.template multiply<Layer>(layers()[number], number);
    }
  };
  /// Layers::visit<Role>(chain, number) runs Role at the layer's kind.
  template <class Role> __device__ __forceinline__ void at(int layer) { Layers::template visit<Role>(*this, layer); }

public:
  /// Runs the layers one after the other.
  __device__ __forceinline__ void run() {
    constexpr int ahead = 2; ///< Layers; the ring reaches into the next one.
    const int warp = warpInBlock();
    if (warp == Block::tokensWarp && leadsWarp()) {
      at<PrefetchWeights>(1);
      waitForPredecessor();
#pragma unroll 1
      for (int layer = 0; layer < Layers::count; ++layer) {
        at<ShareTokens>(layer);
        if (layer + ahead < Layers::count)
          at<PrefetchWeights>(layer + ahead);
      }
    } else if (warp == Block::weightsWarp && leadsWarp()) {
      if constexpr (!Layers::weightsAreFixed) // If they are, no kernel of this run writes them.
        waitForPredecessor();
#pragma unroll 1
      for (int layer = 0; layer < Layers::count; ++layer)
        at<StreamWeights>(layer);
    } else if (warp < Block::weightsWarp) {
      waitForPredecessor();
#pragma unroll 1
      for (int layer = 0; layer < Layers::count; ++layer)
        at<Compute>(layer);
    }
    __syncwarp();
    syncCluster(); // Others may still write here.
  }
};

} // namespace kfuse
