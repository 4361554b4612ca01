// Chains across the grid: every tile of a result has a flag in memory, and each block fetches all of its rows when the
// flags of their tiles are set. Blocks wait for each other: all must be on the device at once. A cluster shares
// weights: its blocks have neighbouring rows of one column of tiles, and bring every other line of K to all of them.
#pragma once

#include <kfuse/chain.cuh>

namespace kfuse {

template <class Config, class Links> struct FlagChain : ChainBlock<Config, Links> {
  using Block = ChainBlock<Config, Links>;
  using Block::consumerThreads;
  using Block::linesOfPart;
  using Block::ring;
  using typename Block::Place;
  using typename Block::Values;
  template <class Link> static constexpr int lines = Block::template lines<Link>;
  static constexpr int cluster = Config::clusterRows;
  static constexpr int groups = (Config::M + Config::tileColumns * cluster - 1) / (Config::tileColumns * cluster);
  static constexpr int rowBlocks = groups * cluster; ///< Some may lie past the last row.
  static_assert(Config::clusterColumns == 1);

  int rank = cluster > 1 ? blockInCluster() : 0;

  __device__ __forceinline__ FlagChain() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Config::stages; ++i)
        initBarrier(ring.barriers + i * 8, 2), initBarrier(ring.empty(i), Block::rowGroups * 4 * cluster);
      fenceBarrierInit();
    }
    __syncwarp();
    if constexpr (cluster > 1)
      meetCluster();
    else
      __syncthreads();
  }

  /// Visits the places of this block, `visit(place)`: the same in every link of the same columns.
  template <class Link, class Visit> __device__ __forceinline__ void forEachPlace(Visit visit) const {
#pragma unroll 1
    for (int unit = blockIdx.x / cluster; unit < Config::batches * groups * Link::parts; unit += gridDim.x / cluster)
      visit(Place{unit / Link::parts / groups, unit / Link::parts % groups * cluster + rank, unit % Link::parts});
  }

  //===- Weights: one thread ---------------------------------------------------------------------//

  template <class Link> __device__ __forceinline__ void streamWeights(const Values &link) {
    forEachPlace<Link>([&](Place place) {
#pragma unroll 1
      for (int line = 0; line < lines<Link>; ++line, ring.advance()) {
        waitBarrier(ring.empty(ring.stage), ring.parity ^ 1);
        arriveExpecting(ring.full(), ring.stageBytes);
        if (line % cluster == rank)
          Block::template forEachBox<typename Link::Weights>(
              place, line * Config::tileK, [&](int row, int x, int y, int batch) {
                const unsigned box = ring.rows() + row * lineBytes;
                if constexpr (cluster == 1)
                  loadBox(box, link.weights, x, y, batch, ring.full());
                else
                  loadBoxMulticast(box, link.weights, x, y, batch, ring.full(), (1u << cluster) - 1);
              });
      }
    });
  }

  //===- Tokens: one warp, a line of K a lane ----------------------------------------------------//

  template <class Link> __device__ __forceinline__ void streamTokens(const Values &link) {
    const int lane = threadIdx.x % 32;
    constexpr int atOnce = Config::stages < 32 ? Config::stages : 32; // Beyond, a stage could be two turns behind.
    forEachPlace<Link>([&](Place place) {
      const unsigned *flags = link.awaited + (place.batch * rowBlocks + place.rowBlock) * Link::awaitedParts;
      if constexpr (!Link::awaitsTiles)
        awaitAll<Link::awaitedParts>(flags);
#pragma unroll 1
      for (int first = 0; first < lines<Link>; first += atOnce) {
        const int line = first + lane;
        bool isPending = lane < atOnce && line < lines<Link>;
        Ring<Config> at = ring;
        at.skip(lane % atOnce);
        for (unsigned turn = 0; anyInWarp(isPending); ++turn) {
          if (isPending && (!Link::awaitsTiles || loadAcquire(flags + line / linesOfPart)) &&
              isComplete(at.empty(at.stage), at.parity ^ 1)) {
            fenceGlobalForTma();
            loadTile<typename Link::Tokens, Config::tileColumns, 1>(
                at.columns(), link.tokens, place.rowBlock * Config::tileColumns, line * Config::tileK,
                Link::Tokens::batch(place.batch), 0, at.full(), 0);
            arrive(at.full());
            isPending = false;
          }
          if (turn == mostTurns)
            __trap(); // Some seconds: the blocks are not all on the device, or one of them has failed.
        }
        ring.skip(lines<Link> - first < atOnce ? lines<Link> - first : atOnce);
      }
    });
  }

  //===- Products and rows: the other warps ------------------------------------------------------//

  template <class Link> __device__ __forceinline__ void multiply(const Values &link) {
    forEachPlace<Link>([&](Place place) {
      Block::template multiply<Link>(link, place, [&](int stage) { release(stage); });
      publish(link.flags, (place.batch * rowBlocks + place.rowBlock) * Link::parts + place.column);
    });
  }

  /// A warp takes a row, Config::rowsOfPart make a part.
  template <class Link> __device__ __forceinline__ void finishRows(const Values &link) {
    const auto body = Link::body(link.buffers);
    const int warp = threadIdx.x / 32;
#pragma unroll 1
    for (int part = blockIdx.x; part < Config::batches * rowBlocks * Link::parts; part += gridDim.x) {
      const int block = part / Link::parts, inBlock = part % Link::parts * Config::rowsOfPart + warp,
                m = block % rowBlocks * Config::tileColumns + inBlock;
      if (warp < Config::rowsOfPart && inBlock < Config::tileColumns && m < Config::M) {
        awaitAll<Link::awaitedParts>(link.awaited + block * Link::awaitedParts);
        body.finish(block / rowBlocks * Config::M + m);
      }
      publish(link.flags, part);
    }
  }

  /// All blocks have seen all flags: the last one clears them for the next run.
  __device__ __forceinline__ void leave(unsigned *flags, int flagCount, unsigned *left) const {
    __syncwarp();
    if constexpr (cluster > 1)
      syncCluster(); // Others may still tell this block what they have read.
    else
      __syncthreads();
    const bool isLast = threadIdx.x == 0 && countArrival(left) == gridDim.x - 1;
    if (!anyInBlock(isLast)) // No shared memory: a static word would take 1 KB.
      return;
    for (int i = threadIdx.x; i < flagCount; i += Config::threads)
      flags[i] = 0;
    if (threadIdx.x == 0)
      *left = 0;
  }

private:
  static constexpr unsigned mostTurns = 1u << 23;

  /// A warp waits for flags.
  template <int count> static __device__ __forceinline__ void awaitAll(const unsigned *flags) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int first = 0; first < count; first += 32) {
      const bool isMine = first + lane < count;
      for (unsigned turn = 0; anyInWarp(isMine && !loadAcquire(flags + first + lane)); ++turn)
        if (turn == mostTurns)
          __trap();
    }
  }

  /// All consumers have written their part of a tile: those who wait for its flag may read it, by TMA too.
  static __device__ __forceinline__ void publish(unsigned *flags, int number) {
    fenceGlobalForTma();
    syncNamed(1, consumerThreads); // The sums' memory may be written again, too.
    if (threadIdx.x == 0 && flags)
      setFlag(flags + number);
  }

  /// The stage is free in this block, and weights come from others of the cluster.
  __device__ __forceinline__ void release(int stage) const {
    const int lane = threadIdx.x % 32;
    if constexpr (cluster == 1) {
      if (lane == 0)
        arrive(ring.empty(stage));
    } else if (lane < cluster) {
      arriveInCluster(inBlock(ring.empty(stage), lane));
    }
  }

  //===- Roles -----------------------------------------------------------------------------------//

  struct StreamTokens {
    template <class Link> static __device__ __forceinline__ void run(FlagChain &chain, int number) {
      if constexpr (Link::isProduct)
        chain.template streamTokens<Link>(Block::links()[number]);
    }
  };
  struct StreamWeights {
    template <class Link> static __device__ __forceinline__ void run(FlagChain &chain, int number) {
      if constexpr (Link::isProduct)
        chain.template streamWeights<Link>(Block::links()[number]);
    }
  };
  struct Compute {
    template <class Link> static __device__ __forceinline__ void run(FlagChain &chain, int number) {
      if constexpr (Link::isProduct)
        chain.template multiply<Link>(Block::links()[number]);
      else
        chain.template finishRows<Link>(Block::links()[number]);
    }
  };
  /// Links::visit<Role>(chain, number) runs Role at the link's kind.
  template <class Role> __device__ __forceinline__ void forEachLink() {
#pragma unroll 1
    for (int link = 0; link < Links::count; ++link)
      Links::template visit<Role>(*this, link);
  }

public:
  /// Runs the links one after the other. `flags` and `left`, a counter of blocks, are zero, and are left so.
  __device__ __forceinline__ void run(unsigned *flags, unsigned *left) {
    const int warp = warpInBlock();
    if (warp >= Block::tokensWarp) {
      waitForPredecessor();
      forEachLink<StreamTokens>();
    } else if (warp == Block::weightsWarp && leadsWarp()) {
      if constexpr (!Links::weightsAreFixed) // Else no kernel of this run writes them.
        waitForPredecessor();
      forEachLink<StreamWeights>();
    } else if (warp < Block::weightsWarp) {
      waitForPredecessor();
      forEachLink<Compute>();
    }
    leave(flags, Links::flags, left);
  }
};

} // namespace kfuse
