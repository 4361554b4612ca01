// Chains within clusters: the blocks of a cluster hold whole rows, a tile of columns each, and have nothing to do with
// other clusters. A block multicasts the tile that it has computed, some lines of the next link's K, to all of its
// cluster; it does so through the L2, which one block's traffic loads but little, where shared memory of one block to
// that of the others would take a multiple of the way.
//
// A stage of the ring is full when this block's weights have come and its tokens, from whoever computed that line.
// Before they may come, all blocks tell that one that the stage is free and expects them (`awaitsTokens`).
#pragma once

#include <kfuse/chain.cuh>

namespace kfuse {

template <class Config, class Links> struct ClusterChain : ChainBlock<Config, Links> {
  using Block = ChainBlock<Config, Links>;
  using Block::consumerThreads;
  using Block::linesOfPart;
  using Block::links;
  using Block::ring;
  using typename Block::Place;
  using typename Block::Values;
  template <class Link> static constexpr int lines = Block::template lines<Link>;
  static constexpr int blocks = Config::clusterColumns;
  static constexpr int rowBlocks = (Config::M + Config::tileColumns - 1) / Config::tileColumns;

  int rank = blockInCluster(), unit = blockIdx.x / blocks;
  Place place{unit / rowBlocks, unit % rowBlocks, rank};
  unsigned awaitedParities = 0, writtenParity = 0; ///< Of the next phases; of `awaitsTokens` a bit for each stage.

  __device__ __forceinline__ ClusterChain() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Config::stages; ++i) {
        initBarrier(ring.barriers + i * 8, 1), initBarrier(ring.empty(i), Block::rowGroups * 4);
        initBarrier(awaitsTokens(i), blocks);
      }
      initBarrier(linesAreWritten(), 1);
      fenceBarrierInit();
    }
    __syncwarp();
    meetCluster();
  }

  //===- Weights: one thread ---------------------------------------------------------------------//

  template <class Link> __device__ __forceinline__ void streamWeights(const Values &link) {
#pragma unroll 1
    for (int line = 0; line < lines<Link>; ++line, ring.advance()) {
      waitBarrier(ring.empty(ring.stage), ring.parity ^ 1);
      arriveExpecting(ring.full(), ring.stageBytes);
      Block::template forEachBox<typename Link::Weights>(
          place, line * Config::tileK, [&](int row, int x, int y, int batch) {
            loadBox(ring.rows() + row * lineBytes, link.weights, x, y, batch, ring.full());
          });
      arriveInCluster(inBlock(awaitsTokens(ring.stage), ownerOf(line)));
    }
  }

  /// Has what this block will read of a link's weights brought to the L2, together with the other blocks that do.
  template <class Link> __device__ __forceinline__ void prefetchWeights(const Values &link) const {
#pragma unroll 1
    for (int line = place.rowBlock; line < lines<Link>; line += rowBlocks)
      Block::template forEachBox<typename Link::Weights>(
          place, line * Config::tileK, [&](int, int x, int y, int batch) { fetchBox(link.weights, x, y, batch); });
  }

  //===- Tokens: one thread ----------------------------------------------------------------------//

  /// Brings the lines that this block has computed to all blocks, each to a stage that is free there.
  template <class Link> __device__ __forceinline__ void shareTokens(const Values &link, int number) {
    if (number > 0 && makesLine<lines<Link>>())
      waitBarrier(linesAreWritten(), writtenParity), writtenParity ^= 1;
#pragma unroll 1
    for (int line = 0; line < lines<Link>; ++line, ring.advance())
      if (ownerOf(line) == rank) {
        waitBarrier(awaitsTokens(ring.stage), awaitedParities >> ring.stage & 1);
        awaitedParities ^= 1u << ring.stage;
        loadBoxMulticast(ring.columns(), link.tokens, line * Config::tileK, place.rowBlock * Config::tileColumns,
                         Link::Tokens::batch(place.batch), ring.full(), (1u << blocks) - 1);
      }
  }

  //===- Products: the other warps ---------------------------------------------------------------//

  template <class Link> __device__ __forceinline__ void multiply(const Values &link, int number) {
    Block::template multiply<Link>(link, place, [&](int stage) {
      if (threadIdx.x % 32 == 0)
        arrive(ring.empty(stage));
    });
    // All consumers have written their part of the tile: the thread that brings it to the others may read it.
    fenceGlobalForTma();
    syncNamed(1, consumerThreads); // The sums' memory may be written again, too.
    if (threadIdx.x == 0 && number + 1 < Links::count && makesLine<(Link::N + Config::tileK - 1) / Config::tileK>())
      arrive(linesAreWritten());
    mark(Moment::ends);
  }

private:
  /// All blocks await the line that this block brings to a stage.
  __device__ __forceinline__ unsigned awaitsTokens(int stage) const {
    return ring.barriers + Ring<Config>::barrierBytes + stage * 8;
  }
  __device__ __forceinline__ unsigned linesAreWritten() const { return awaitsTokens(Config::stages); }

  /// The block that brings a line: who has computed it, or would have.
  static __device__ __forceinline__ int ownerOf(int line) { return line / linesOfPart % blocks; }
  template <int lineCount> __device__ __forceinline__ bool makesLine() const { return rank * linesOfPart < lineCount; }

  //===- Roles -----------------------------------------------------------------------------------//

  struct StreamWeights {
    template <class Link> static __device__ __forceinline__ void run(ClusterChain &chain, int number) {
      chain.template streamWeights<Link>(links()[number]);
    }
  };
  struct PrefetchWeights {
    template <class Link> static __device__ __forceinline__ void run(ClusterChain &chain, int number) {
      chain.template prefetchWeights<Link>(links()[number]);
    }
  };
  struct ShareTokens {
    template <class Link> static __device__ __forceinline__ void run(ClusterChain &chain, int number) {
      chain.template shareTokens<Link>(links()[number], number);
    }
  };
  struct Compute {
    template <class Link> static __device__ __forceinline__ void run(ClusterChain &chain, int number) {
      chain.template multiply<Link>(links()[number], number);
    }
  };
  /// Links::visit<Role>(chain, number) runs Role at the link's kind.
  template <class Role> __device__ __forceinline__ void at(int link) { Links::template visit<Role>(*this, link); }

public:
  /// Runs the links one after the other.
  __device__ __forceinline__ void run() {
    constexpr int ahead = 2; ///< Links; the ring reaches into the next one.
    const int warp = warpInBlock();
    if (warp == Block::tokensWarp && leadsWarp()) {
      at<PrefetchWeights>(1);
      waitForPredecessor();
#pragma unroll 1
      for (int link = 0; link < Links::count; ++link) {
        at<ShareTokens>(link);
        if (link + ahead < Links::count)
          at<PrefetchWeights>(link + ahead);
      }
    } else if (warp == Block::weightsWarp && leadsWarp()) {
      if constexpr (!Links::weightsAreFixed) // Else no kernel of this run writes them.
        waitForPredecessor();
#pragma unroll 1
      for (int link = 0; link < Links::count; ++link)
        at<StreamWeights>(link);
    } else if (warp < Block::weightsWarp) {
      waitForPredecessor();
#pragma unroll 1
      for (int link = 0; link < Links::count; ++link)
        at<Compute>(link);
    }
    __syncwarp();
    syncCluster(); // Others may still write here.
  }
};

} // namespace kfuse
