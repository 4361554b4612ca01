// Layers of few rows in one launch: products whose rows are those of the one before, blocks that stay for all of them.
//
// Every block computes the same places of each link's result, tiles of `tileRows` columns of the result (the 64-row
// side of the instruction, weights) by `tileColumns` of its rows (tokens). A warp keeps a ring of tiles full of
// weights, links ahead of what is multiplied; another brings the tokens to the same stages as soon as the blocks that
// compute them say so: a flag for each tile of a result, which is 64 or more neighbours of the next link's K. K is
// split over warpgroups, whose sums meet in shared memory. Links without a product (norms) are rows, one a warp.
//
// Blocks wait for each other: all must be on the device at once. A cluster shares weights: its blocks have
// neighbouring rows of one column of tiles, and bring every other line of K to all of them.
#pragma once

#include <kfuse/epilogue.cuh>
#include <kfuse/rows.cuh>
#include <kfuse/wgmma.cuh>

namespace kfuse {

/// Where a link's operands are.
template <int bufferCount> struct LinkValues {
  const TensorMap *weights, *tokens;
  unsigned *flags;         ///< One for each tile of the result; null where no link waits for it.
  const unsigned *awaited; ///< Those of the link before; null for the first.
  const void *buffers[bufferCount];
};

template <class Config> struct ChainPlace {
  int batch, rowBlock, column; ///< Tile of the result's columns.
};

template <class Config, class Links> struct Chain {
  static constexpr int consumerThreads = Config::tileRows / 64 * Config::groupsK * 128;
  static constexpr int weightsThread = consumerThreads, tokensThread = consumerThreads + 32;
  static constexpr int rowGroups = Config::tileRows / 64, cluster = Config::cluster, vector = Config::epilogueVector;
  static constexpr int groups = (Config::M + Config::tileColumns * cluster - 1) / (Config::tileColumns * cluster);
  static constexpr int rowBlocks = groups * cluster; ///< Some may lie past the last row.
  static constexpr int sumCount = Config::tileColumns / 2;
  static constexpr int partBytes = Config::tileColumns * Config::tileRows * 4;
  static constexpr int chunksOfRow = Config::tileRows / vector, chunks = Config::tileColumns * chunksOfRow;
  static constexpr int chunksOfThread = (chunks + consumerThreads - 1) / consumerThreads;
  static constexpr int linesOfPart = rowGroups; ///< Lines of K that a tile of the link before makes.
  using Values = LinkValues<Links::buffers>;
  static_assert(Config::threads == consumerThreads + 64);
  // A stage is always the same warpgroup's (gemm_sm90_split.cuh), which gives one back when it has the next.
  static_assert(Config::stages % Config::groupsK == 0 && Config::stages >= 2 * Config::groupsK);

  Ring<Config> ring;
  unsigned parts; ///< Shared address of the sums of each warpgroup.
  int rank = cluster > 1 ? blockInCluster() : 0;

  static __device__ __forceinline__ Values *links() {
    return reinterpret_cast<Values *>(dynamicShared() + Config::linksOffset);
  }

  __device__ __forceinline__ Chain() {
    ring.tiles = sharedAddress(dynamicShared());
    parts = ring.tiles + Config::partsOffset;
    ring.barriers = ring.tiles + Config::barriersOffset;
    if (threadIdx.x == 0) {
      for (int i = 0; i < Config::stages; ++i)
        initBarrier(ring.barriers + i * 8, 2), initBarrier(ring.empty(i), rowGroups * 4 * cluster);
      fenceBarrierInit();
    }
    meet();
  }

  __device__ __forceinline__ static void meet() {
    __syncwarp();
    if constexpr (cluster > 1)
      syncCluster();
    else
      __syncthreads();
  }

  /// Visits the places of this block, `visit(place)`: the same in every link of the same columns.
  template <class Link, class Visit> __device__ __forceinline__ void forEachPlace(Visit visit) const {
#pragma unroll 1
    for (int unit = blockIdx.x / cluster; unit < Config::batches * groups * Link::parts; unit += gridDim.x / cluster)
      visit(ChainPlace<Config>{unit / Link::parts / groups, unit / Link::parts % groups * cluster + rank,
                               unit % Link::parts});
  }
  template <class Link> static constexpr int lines = (Link::K + Config::tileK - 1) / Config::tileK;

  //===- Weights: one thread ---------------------------------------------------------------------//

  template <class Link> __device__ __forceinline__ void streamWeights(const Values &link) {
    forEachPlace<Link>([&](ChainPlace<Config> place) {
#pragma unroll 1
      for (int line = 0; line < lines<Link>; ++line, ring.advance()) {
        waitBarrier(ring.empty(ring.stage), ring.parity ^ 1);
        arriveExpecting(ring.full(), ring.stageBytes);
        if (line % cluster == rank)
          loadWeights<typename Link::Weights>(link.weights, place, line * Config::tileK);
      }
    });
  }

  //===- Tokens: one warp, a line of K a lane ----------------------------------------------------//

  template <class Link> __device__ __forceinline__ void streamTokens(const Values &link) {
    const int lane = threadIdx.x % 32;
    constexpr int atOnce = Config::stages < 32 ? Config::stages : 32; // Beyond, a stage could be two turns behind.
    forEachPlace<Link>([&](ChainPlace<Config> place) {
      const unsigned *flags = link.awaited + (place.batch * rowBlocks + place.rowBlock) * Link::awaitedParts;
      if constexpr (!Link::awaitsTiles)
        awaitAll<Link::awaitedParts>(flags);
#pragma unroll 1
      for (int first = 0; first < lines<Link>; first += atOnce) {
        const int line = first + lane;
        bool isPending = lane < atOnce && line < lines<Link>;
        Ring<Config> at = ring;
        at.skip(lane % atOnce);
        for (unsigned turn = 0; __any_sync(~0u, isPending); ++turn) {
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

  //===- Products: the other warps ---------------------------------------------------------------//

  template <class Link> __device__ __forceinline__ void multiply(const Values &link) {
    using Epilogue = typename Link::Body;
    const Epilogue epilogue = Link::body(link.buffers);
    constexpr bool loadsAhead = !Link::readsResults && chunksOfThread <= 2;
    forEachPlace<Link>([&](ChainPlace<Config> place) {
      typename Epilogue::Operands x[loadsAhead ? chunksOfThread : 1];
      auto load = [&](int i) {
        if (const Chunk at = chunk<Link>(place, i); at.exists)
          epilogue.load(x[loadsAhead ? i : 0], place.batch, at.row, at.column, at.lanes);
      };
      if constexpr (loadsAhead)
#pragma unroll
        for (int i = 0; i < chunksOfThread; ++i)
          load(i);
      sumUp<Link>();
      syncNamed(1, consumerThreads);
#pragma unroll(chunksOfThread < 4 ? chunksOfThread : 4)
      for (int i = 0; i < chunksOfThread; ++i) {
        if constexpr (!loadsAhead)
          load(i);
        if (const Chunk at = chunk<Link>(place, i); at.exists)
          epilogue.apply(x[loadsAhead ? i : 0], total(at), place.batch, at.row, at.column, at.lanes);
      }
      publish(link.flags, (place.batch * rowBlocks + place.rowBlock) * Link::parts + place.column);
    });
  }

  /// Rows without a product: a warp takes one, Config::rowsOfPart make a part.
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
    auto *before = reinterpret_cast<unsigned *>(dynamicShared() + Config::partsOffset); // A static one would take 1 KB.
    meet();
    if (threadIdx.x == 0)
      *before = countArrival(left);
    __syncthreads();
    if (*before != gridDim.x - 1)
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
      for (unsigned turn = 0; __any_sync(~0u, isMine && !loadAcquire(flags + first + lane)); ++turn)
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

  template <class Weights>
  __device__ __forceinline__ void loadWeights(const TensorMap *map, ChainPlace<Config> place, int k) const {
    constexpr int boxRows = Weights::contiguousK ? Config::tileRows : 64;
    const int batch = Weights::batch(place.batch);
#pragma unroll
    for (int row = 0; row < Config::tileRows; row += boxRows) {
      const int n = place.column * Config::tileRows + row, x = Weights::contiguousK ? k : n,
                y = Weights::contiguousK ? n : k;
      const unsigned box = ring.rows() + row * lineBytes;
      if constexpr (cluster == 1)
        loadBox(box, map, x, y, batch, ring.full());
      else
        loadBoxMulticast(box, map, x, y, batch, ring.full(), (1u << cluster) - 1);
    }
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

  /// This warpgroup's sums over its lines of K, to its part.
  template <class Link> __device__ __forceinline__ void sumUp() {
    const int warpgroup = threadIdx.x / 128, rowGroup = warpgroup % rowGroups, groupK = warpgroup / rowGroups;
    const int before = (groupK + Config::groupsK - ring.stage % Config::groupsK) % Config::groupsK;
    float sums[1][sumCount] = {};
    int previous = -1;
    Ring<Config> at = ring;
    at.skip(before);
#pragma unroll 1
    for (int line = before; line < lines<Link>; line += Config::groupsK) {
      waitBarrier(at.full(), at.parity);
      multiplyTile<typename Link::Weights, typename Link::Tokens, typename Link::Product>(
          sums, at.rows() + rowGroup * panelBytes, at.columns(), true);
      waitProducts<1>();
      if (previous >= 0)
        release(previous);
      previous = at.stage;
      at.skip(Config::groupsK);
    }
    waitProducts<0>();
    if (previous >= 0)
      release(previous);
    ring.skip(lines<Link>);
    settle(sums);
    stage(sums[0], rowGroup, groupK);
  }

  /// Where the sum of a token and a column lies in a part: tokens change the eights of columns, so that neither those
  /// who write nor those who read have bank conflicts.
  static __device__ __forceinline__ int placeOfSum(int token, int column) {
    return token * Config::tileRows + (column ^ (token / 2 % 4 * 8));
  }

  /// A lane holds two neighbouring tokens of columns lane / 4 and lane / 4 + 8 in every eight tokens.
  __device__ __forceinline__ void stage(const float (&sums)[sumCount], int rowGroup, int groupK) const {
    float *part = reinterpret_cast<float *>(dynamicShared() + Config::partsOffset + groupK * partBytes);
    const int r = rowGroup * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, c = threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < Config::tileColumns / 8; ++j) {
      const float *from = &sums[j * 4];
      const int token = j * 8 + c;
      part[placeOfSum(token, r)] = from[0], part[placeOfSum(token + 1, r)] = from[1];
      part[placeOfSum(token, r + 8)] = from[2], part[placeOfSum(token + 1, r + 8)] = from[3];
    }
  }

  /// Neighbouring columns of a token that a thread finishes.
  struct Chunk {
    int token, ofTile; ///< In the tile.
    int row, column, lanes;
    bool exists;
  };
  template <class Link> static __device__ __forceinline__ Chunk chunk(ChainPlace<Config> place, int number) {
    const int at = number * consumerThreads + threadIdx.x, token = at / chunksOfRow, ofTile = at % chunksOfRow * vector;
    const int row = place.rowBlock * Config::tileColumns + token, column = place.column * Config::tileRows + ofTile;
    return {token,
            ofTile,
            row,
            column,
            columnsAt<Link, vector>(column),
            at < chunks && row < Config::M && column < Link::N};
  }
  static __device__ __forceinline__ Vector<float, vector> total(const Chunk &at) {
    const float *part =
        reinterpret_cast<const float *>(dynamicShared() + Config::partsOffset) + placeOfSum(at.token, at.ofTile);
    Vector<float, vector> sum{};
#pragma unroll
    for (int group = 0; group < Config::groupsK; ++group) {
      const auto sums = *reinterpret_cast<const Vector<float, vector> *>(part + group * (partBytes / 4));
#pragma unroll
      for (int j = 0; j < vector; ++j)
        sum[j] += sums[j];
    }
    return sum;
  }
};

/// What the threads of a role do at a link.
struct StreamTokens {
  template <class Link, class Chain> static __device__ __forceinline__ void run(Chain &chain, int number) {
    if constexpr (Link::isProduct)
      chain.template streamTokens<Link>(Chain::links()[number]);
  }
};
struct StreamWeights {
  template <class Link, class Chain> static __device__ __forceinline__ void run(Chain &chain, int number) {
    if constexpr (Link::isProduct)
      chain.template streamWeights<Link>(Chain::links()[number]);
  }
};
struct Compute {
  template <class Link, class Chain> static __device__ __forceinline__ void run(Chain &chain, int number) {
    if constexpr (Link::isProduct)
      chain.template multiply<Link>(Chain::links()[number]);
    else
      chain.template finishRows<Link>(Chain::links()[number]);
  }
};

/// Runs the links one after the other. Links::visit<Role>(chain, number) runs Role at the link's kind.
template <class Config, class Links>
__device__ __forceinline__ void runChain(Chain<Config, Links> &chain, unsigned *flags, unsigned *left) {
  using Kernel = Chain<Config, Links>;
  if (threadIdx.x >= Kernel::tokensThread) {
    waitForPredecessor();
#pragma unroll 1
    for (int link = 0; link < Links::count; ++link)
      Links::template visit<StreamTokens>(chain, link);
  } else if (threadIdx.x == Kernel::weightsThread) {
    if constexpr (!Links::weightsAreFixed) // Else no kernel of this run writes them.
      waitForPredecessor();
#pragma unroll 1
    for (int link = 0; link < Links::count; ++link)
      Links::template visit<StreamWeights>(chain, link);
  } else if (threadIdx.x < Kernel::consumerThreads) {
    waitForPredecessor();
#pragma unroll 1
    for (int link = 0; link < Links::count; ++link)
      Links::template visit<Compute>(chain, link);
  }
  chain.leave(flags, Links::flags, left);
}

} // namespace kfuse
