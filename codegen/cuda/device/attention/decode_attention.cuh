// Attention of few query rows with many keys: the keys are split over blocks and their warps.
#pragma once

#include <kfuse/copy.cuh>
#include <kfuse/decode_memory.cuh>
#include <kfuse/decode_partials.cuh>
#include <kfuse/math.cuh>
#include <kfuse/mma.cuh>
#include <kfuse/row_lanes.cuh>

namespace kfuse {

/// Up to 16 query rows share the keys and values of one pair (a sequence and a head): blockIdx.x is the pair,
/// blockIdx.y the split of its keys. How many splits there are follows from how many keys a run has: each gives every
/// warp a tile, or the blocks behind the last one end at once, and nobody waits for them; so do those of sequences that
/// a run does not have. Every warp has a pipeline of its own for every warps-th tile of keys and a softmax of its own,
/// as in "FlashAttention-2" (Dao, 2023) with rows instead of blocks of them; what warps and blocks found is put
/// together by their maxima and sums. The block of a pair that starts last does so for all, in the order of the
/// partials: those it waits for are running.
template <class Config, class Body> struct DecodeAttention {
  using Index = typename Config::Index;
  using Element = typename Config::Element;
  static constexpr int tileKeys = Config::tileKeys, warps = Config::warps, stages = Config::stages,
                       splits = Config::splits;
  static constexpr int rows = Config::rows, keySize = Config::keySize, valueSize = Config::valueSize;
  static constexpr int threads = warps * 32;
  using KeyTile = SharedTile<tileKeys, Config::keyPitch>;
  using ValueTile = SharedTile<tileKeys, Config::valuePitch>;
  static constexpr int stageBytes = KeyTile::bytes + ValueTile::bytes;
  static constexpr float log2e = 1.44269504f;
  static constexpr bool hasUpper = rows > 8; ///< Rows 8 to 15 of the fragments.

  using Partial = DecodePartial<rows, valueSize>;
  static constexpr int ringBytes = stages * stageBytes; ///< A warp's shared memory: its tiles, then its partial.
  static constexpr int warpBytes = ringBytes > int(sizeof(Partial)) ? ringBytes : int(sizeof(Partial));

  /// What this kernel computes for a pair, before anything reads it.
  template <int count, int size> struct alignas(16) Rows {
    Element at[count][size + 8]; ///< Eight rows below each other lie in different banks.
  };
  template <int size> struct alignas(16) Rows<0, size> {};
  static constexpr int newQueries = Config::computesQuery ? rows : 0;
  struct Fresh {
    Rows<newQueries, keySize> query;
    Rows<Config::newKeys, keySize> keys;
    Rows<Config::newValues, valueSize> values;
  };

  /// Chunks of eight of `number` computed rows, one a thread, from thread `begin` on. The next kind begins with another
  /// warp, which does not wait for these. Where chunks need totals of their row, it has lanes of one warp.
  template <int begin, int number, int size, class Operands> struct Chunks {
    static constexpr bool needsRow = __is_base_of(OfWholeRow, Operands);
    static constexpr int ofRow = size / 8, lanes = needsRow ? rowLanes(ofRow) : ofRow;
    using Lanes = RowLanes<lanes>;
    static constexpr int count = number * lanes, turns = (count + threads - 1) / threads;
    static constexpr int held = turns > 0 ? turns : 1, end = (begin + count + 31) / 32 * 32 % threads;

    /// Calls use(turn, row, d, lanes) for this thread's; in all lanes of a warp that has some, where they need totals.
    template <class Use> static __device__ __forceinline__ void forMine(Use use) {
#pragma unroll
      for (int turn = 0; turn < turns; ++turn) {
        const int at = turn * threads + (int(threadIdx.x) + threads - begin) % threads;
        if constexpr (needsRow) {
          const int row = at / lanes, chunk = at % lanes;
          if (at / 32 * 32 < count)
            use(turn, minimum(row, number - 1), chunk < ofRow ? chunk * 8 : 0, Lanes{row < number && chunk < ofRow});
        } else if (at < count) {
          use(turn, at / ofRow, at % ofRow * 8, Lanes{true});
        }
      }
    }
  };
  /// Behind the loads of tiles, queries would come when all of these have.
  static constexpr bool loadsQueryFirst = !Config::readsAhead && newQueries + Config::newKeys + Config::newValues == 0;
  using QueryChunks = Chunks<0, newQueries, keySize, typename Body::QueryOperands>;
  using KeyChunks = Chunks<QueryChunks::end, Config::newKeys, keySize, typename Body::KeyOperands>;
  using ValueChunks = Chunks<KeyChunks::end, Config::newValues, valueSize, typename Body::ValueOperands>;

  /// What this thread's chunks are computed from.
  struct Operands {
    typename Body::QueryOperands query[QueryChunks::held];
    typename Body::KeyOperands keys[KeyChunks::held];
    typename Body::ValueOperands values[ValueChunks::held];
  };

  const Body &body;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Index pair = blockIdx.x;
  typename Body::Fixed fixed = body.at(pair);
  Index count = fixed.count < Config::keys ? (fixed.count > 0 ? fixed.count : 0) : Config::keys;
  Index tiles = (count + tileKeys - 1) / tileKeys;
  int ofSplit = splits == 1 ? int(tiles) : kfuse::maximum(warps, int((tiles + splits - 1) / splits));
  int live = splits == 1 ? 1 : kfuse::maximum(1, (int(tiles) + ofSplit - 1) / ofSplit); ///< Splits that have keys.
  Index first = Index(blockIdx.y) * ofSplit, end = minimum(first + ofSplit, tiles);     ///< Tiles of this block.
  Index loading = first + warp;                                                         ///< The tile to copy next.

  // What this warp has found.
  unsigned query[keySize / 16][4];
  float accumulators[valueSize / 8][4];
  float maximum[2] = {-infinity, -infinity}, weight[2] = {0, 0}; ///< For rows lane / 4 and 8 below.

  //===- What is computed ----------------------------------------------------------------------===//

  /// Whether this block reads one of `number` new rows from `position` on.
  __device__ __forceinline__ bool holds(Index position, int number) const {
    return position + number > first * tileKeys && position < end * tileKeys;
  }

  __device__ __forceinline__ bool makesKeys() const { return blockIdx.y == 0 || holds(fixed.newKey, Config::newKeys); }
  __device__ __forceinline__ bool makesValues() const {
    return blockIdx.y == 0 || holds(fixed.newValue, Config::newValues);
  }

  /// Loads what no kernel of the run writes, ahead of the wait.
  __device__ __forceinline__ void loadFixed(Operands &x) const {
    if constexpr (newQueries > 0)
      QueryChunks::forMine([&](int turn, int row, int d, typename QueryChunks::Lanes) {
        body.loadFixedOfQuery(x.query[turn], pair, row, d);
      });
    if constexpr (Config::newKeys > 0)
      if (makesKeys())
        KeyChunks::forMine([&](int turn, int row, int d, typename KeyChunks::Lanes) {
          body.loadFixedOfKey(x.keys[turn], pair, row, d);
        });
    if constexpr (Config::newValues > 0)
      if (makesValues())
        ValueChunks::forMine([&](int turn, int row, int d, typename ValueChunks::Lanes) {
          body.loadFixedOfValue(x.values[turn], pair, row, d);
        });
  }

  /// Queries, and the rows that this block reads or writes: each pair's first block writes them, all who read them
  /// have their own.
  __device__ __forceinline__ void makeFresh(Fresh &fresh, Operands &x) const {
    if constexpr (newQueries > 0)
      QueryChunks::forMine([&](int turn, int row, int d, typename QueryChunks::Lanes lanes) {
        if constexpr (QueryChunks::needsRow)
          body.makeQuery(&fresh.query.at[row][d], x.query[turn], pair, row, d, lanes);
        else
          body.makeQuery(&fresh.query.at[row][d], x.query[turn], pair, row, d);
      });
    if constexpr (Config::newKeys > 0)
      if (makesKeys())
        KeyChunks::forMine([&](int turn, int row, int d, typename KeyChunks::Lanes lanes) {
          if constexpr (KeyChunks::needsRow)
            body.makeKey(&fresh.keys.at[row][d], x.keys[turn], pair, row, d, lanes);
          else
            body.makeKey(&fresh.keys.at[row][d], x.keys[turn], pair, row, d);
          if (blockIdx.y == 0 && fixed.newKey >= 0 && lanes.exists)
            copyChunk(x.keys[turn].place, &fresh.keys.at[row][d]);
        });
    if constexpr (Config::newValues > 0)
      if (makesValues())
        ValueChunks::forMine([&](int turn, int row, int d, typename ValueChunks::Lanes lanes) {
          if constexpr (ValueChunks::needsRow)
            body.makeValue(&fresh.values.at[row][d], x.values[turn], pair, row, d, lanes);
          else
            body.makeValue(&fresh.values.at[row][d], x.values[turn], pair, row, d);
          if (blockIdx.y == 0 && fixed.newValue >= 0 && lanes.exists)
            copyChunk(x.values[turn].place, &fresh.values.at[row][d]);
        });
    if constexpr (newQueries + Config::newKeys + Config::newValues > 0)
      __syncthreads();
  }

  static __device__ __forceinline__ void copyChunk(Element *to, const Element *from) {
    *reinterpret_cast<Vector<Element, 8> *>(to) = *reinterpret_cast<const Vector<Element, 8> *>(from);
  }

  /// Puts new rows where a tile of keys from `firstKey` on has older ones.
  template <class Tile, int size, class New>
  __device__ __forceinline__ void replaceRows(unsigned tile, Index firstKey, Index position, const New &fresh) const {
    constexpr int chunks = size / 8, number = sizeof(fresh.at) / sizeof(fresh.at[0]);
    if (position + number <= firstKey || position >= firstKey + tileKeys)
      return;
    auto *to = reinterpret_cast<unsigned char *>(dynamicShared()) + (tile - sharedAddress(dynamicShared()));
    for (int at = lane; at < number * chunks; at += 32) {
      Index key = position + at / chunks, row = key - firstKey;
      if (row >= 0 && row < tileKeys && key < count)
        copyChunk(reinterpret_cast<Element *>(to + Tile::offset(static_cast<int>(row), at % chunks)),
                  &fresh.at[at / chunks][at % chunks * 8]);
    }
    __syncwarp();
  }

  //===- Loads ---------------------------------------------------------------------------------===//

  __device__ __forceinline__ void loadQuery(const Fresh &fresh) {
#pragma unroll
    for (int k = 0; k < keySize / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        int row = lane / 4 + (i % 2) * 8, d = k * 16 + lane % 4 * 2 + (i / 2) * 8;
        query[k][i] = row < rows ? queryAt(fresh, row, d) : 0u;
      }
  }
  __device__ __forceinline__ unsigned queryAt(const Fresh &fresh, int row, int d) const {
    if constexpr (Config::computesQuery)
      return *reinterpret_cast<const unsigned *>(&fresh.query.at[row][d]);
    else
      return body.query(pair, row, d);
  }

  __device__ __forceinline__ unsigned stageAt(int stage) const {
    return sharedAddress(dynamicShared()) + warp * warpBytes + stage * stageBytes;
  }

  /// Starts the copy of the tile of keys from `first` on; keys that do not count become zeros.
  __device__ __forceinline__ void startTile(int stage, Index first) const {
    unsigned to = stageAt(stage);
    startRows<KeyTile, keySize>(to, first, [&](Index key) { return body.key(pair, key); });
    startRows<ValueTile, valueSize>(to + KeyTile::bytes, first, [&](Index key) { return body.value(pair, key); });
  }
  template <class Tile, int size, class RowAt>
  __device__ __forceinline__ void startRows(unsigned to, Index first, RowAt rowAt) const {
    constexpr int chunks = size / 8;
#pragma unroll
    for (int i = 0; i < (tileKeys * chunks + 31) / 32; ++i) {
      int at = i * 32 + lane, row = at / chunks, chunk = at % chunks;
      if (tileKeys * chunks % 32 != 0 && row >= tileKeys)
        break;
      Index key = first + row;
      bool exists = key < count;
      copyAsync<16>(to + Tile::offset(row, chunk), rowAt(exists ? key : 0) + chunk * 8, exists ? 16 : 0);
    }
  }

  //===- One tile ------------------------------------------------------------------------------===//

  __device__ __forceinline__ void takeTile(int stage, Index first) {
    float scores[tileKeys / 8][4] = {};
    const unsigned keys = stageAt(stage), values = keys + KeyTile::bytes;
#pragma unroll
    for (int k = 0; k < keySize / 16; ++k)
#pragma unroll
      for (int n = 0; n < tileKeys / 16; ++n) {
        unsigned b[4];
        loadMatrices(b, keys + KeyTile::offset(n * 16 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2));
        multiply(scores[2 * n], query[k], b[0], b[1]);
        multiply(scores[2 * n + 1], query[k], b[2], b[3]);
      }
    unsigned weights[tileKeys / 16][4];
    weigh(scores, weights, first);
#pragma unroll
    for (int n = 0; n < tileKeys / 16; ++n)
#pragma unroll
      for (int d = 0; d < valueSize / 16; ++d) {
        unsigned b[4];
        loadMatricesTransposed(b, values + ValueTile::offset(n * 16 + lane % 8 + lane / 8 % 2 * 8, d * 2 + lane / 16));
        multiply(accumulators[2 * d], weights[n], b[0], b[1]);
        multiply(accumulators[2 * d + 1], weights[n], b[2], b[3]);
      }
  }

  /// From products to 2^(score - maximum) as operands of the second product; older accumulators are scaled to the new
  /// maximum.
  __device__ __forceinline__ void weigh(float (&scores)[tileKeys / 8][4], unsigned (&weights)[tileKeys / 16][4],
                                        Index first) {
    float scale[2] = {1, 1};
#pragma unroll
    for (int half = 0; half <= int(hasUpper); ++half) {
      const int row = minimum(lane / 4 + half * 8, rows - 1);
      float highest = maximum[half];
#pragma unroll
      for (int n = 0; n < tileKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          Index key = first + n * 8 + lane % 4 * 2 + i;
          float score = body.score(fixed, scores[n][half * 2 + i], pair, row, key < Config::keys ? key : 0) * log2e;
          scores[n][half * 2 + i] = key < count ? score : -infinity;
          highest = fmaxf(highest, scores[n][half * 2 + i]);
        }
      highest = reduceMaximum(highest);
      const float base = highest == -infinity ? 0.0f : highest;
      scale[half] = powerOfTwo(maximum[half] - base);
      maximum[half] = highest;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < tileKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          scores[n][half * 2 + i] = powerOfTwo(scores[n][half * 2 + i] - base);
          sum += scores[n][half * 2 + i];
        }
      weight[half] = weight[half] * scale[half] + sum; // This lane's columns; added up at the end.
    }
#pragma unroll
    for (int d = 0; d < valueSize / 8; ++d)
#pragma unroll
      for (int i = 0; i < 2 + 2 * int(hasUpper); ++i)
        accumulators[d][i] *= scale[i / 2];
#pragma unroll
    for (int n = 0; n < tileKeys / 16; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float *from = &scores[2 * n + i / 2][i % 2 * 2];
        weights[n][i] = i % 2 == 0 || hasUpper ? pack(from[0], from[1]) : 0u;
      }
  }

  /// Over the four lanes that hold a row.
  static __device__ __forceinline__ float reduceMaximum(float x) {
    x = fmaxf(x, shuffleXor(x, 1));
    return fmaxf(x, shuffleXor(x, 2));
  }
  static __device__ __forceinline__ float reduceSum(float x) {
    x += shuffleXor(x, 1);
    return x + shuffleXor(x, 2);
  }
  static __device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    multiplyAdd(Element{}, c, a, b0, b1);
  }
  static __device__ __forceinline__ unsigned pack(float low, float high) {
    Vector<Element, 2> pair;
    encodePair(&pair[0], low, high);
    return __builtin_bit_cast(unsigned, pair);
  }

  //===- All tiles of this warp ----------------------------------------------------------------===//

  /// Starts the copies of this warp's next tile, if there is one.
  __device__ __forceinline__ void startNext(int stage) {
    if (loading < end)
      startTile(stage, loading * tileKeys);
    commitCopies();
    loading += warps;
  }

  __device__ __forceinline__ void takeTiles(const Fresh &fresh) {
#pragma unroll
    for (int d = 0; d < valueSize / 8; ++d)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        accumulators[d][i] = 0;
    int stage = 0;
#pragma unroll 1
    for (Index tile = first + warp; tile < end; tile += warps) {
      waitCopies<stages - 1>();
      __syncwarp();
      if constexpr (Config::newKeys > 0)
        replaceRows<KeyTile, keySize>(stageAt(stage), tile * tileKeys, fixed.newKey, fresh.keys);
      if constexpr (Config::newValues > 0)
        replaceRows<ValueTile, valueSize>(stageAt(stage) + KeyTile::bytes, tile * tileKeys, fixed.newValue,
                                          fresh.values);
      takeTile(stage, tile * tileKeys);
      __syncwarp(); // All have read it.
      startNext(stage);
      stage = stage + 1 == stages ? 0 : stage + 1;
    }
    waitCopies<0>();
#pragma unroll
    for (int half = 0; half < 2; ++half)
      weight[half] = reduceSum(weight[half]);
  }

  //===- Putting partials together ----------------------------------------------------------------===//

  static __device__ __forceinline__ Partial &partialOf(int warp) {
    return *reinterpret_cast<Partial *>(dynamicShared() + warp * warpBytes);
  }

  /// This warp's accumulators, where its tiles were.
  __device__ __forceinline__ void leavePart() const {
    Partial &partial = partialOf(warp);
#pragma unroll
    for (int half = 0; half <= int(hasUpper); ++half) {
      int row = lane / 4 + half * 8;
      if (row >= rows)
        continue;
      if (lane % 4 == 0)
        partial.heads[row] = {maximum[half], weight[half]};
#pragma unroll
      for (int d = 0; d < valueSize / 8; ++d)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          partial.values[row][d * 8 + lane % 4 * 2 + i] = accumulators[d][half * 2 + i];
    }
  }

  /// Calls `use(row, d, sum)` with the sum of all warps' partials.
  template <class Use> static __device__ __forceinline__ void addWarps(Use use) {
    addPartials<Partial, warps, threads>(warps, partialOf, use);
  }

  __device__ __forceinline__ void store(int row, int d, const DecodeSum &sum) const {
    float weight = sum.head.weight;
    if constexpr (Config::hasSink) // Beside it, the largest of all scores may count for nothing.
      weight += powerOfTwo(body.sink(pair, row) * log2e - sum.head.maximum);
    const float factor = 1.0f / weight;
    const bool isEmpty = Config::emptyIsZero && !(weight > 0.0f); // There are no keys, or scores that are no numbers.
    Vector<float, 4> values = sum.values;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[i] = isEmpty ? 0.0f : values[i] * factor;
    body.store(pair, row, d, values);
  }

  // How the blocks of a pair put their partials together. Each may begin early, is told before the block's barrier that
  // its warps have left their partials, and sees to the pair's result behind it. Blocks without keys skip all that.

  /// No other block has keys of the pair.
  struct Alone {
    __device__ __forceinline__ void skip() {}
    __device__ __forceinline__ void begin(const DecodeAttention &) {}
    __device__ __forceinline__ void leave(const DecodeAttention &) {}
    __device__ __forceinline__ void finish(const DecodeAttention &all) {
      addWarps([&](int row, int d, const DecodeSum &sum) { all.store(row, d, sum); });
    }
  };
  using ThroughMemory = DecodeThroughMemory<DecodeAttention>;

  template <class FixUp> __device__ __forceinline__ void run(FixUp fixUp) {
    __shared__ Fresh fresh;
    if constexpr (requires { body.isBehindRun(pair); })
      if (body.isBehindRun(pair))
        return fixUp.skip();
    if (splits > 1 && int(blockIdx.y) >= live)
      return fixUp.skip();
    mark(Moment::starts);
    if constexpr (loadsQueryFirst)
      loadQuery(fresh);
    Operands operands;
    loadFixed(operands);
#pragma unroll
    for (int stage = 0; stage < stages; ++stage)
      startNext(stage);
    if constexpr (Config::readsAhead) // The cache is as the last run left it.
      waitForPredecessor();
    fixUp.begin(*this);
    makeFresh(fresh, operands);
    if constexpr (!loadsQueryFirst)
      loadQuery(fresh);
    mark(Moment::hasTile);
    takeTiles(fresh);
    mark(Moment::hasAccumulators);
    __syncwarp(); // This warp's tiles are read.
    leavePart();
    fixUp.leave(*this);
    __syncthreads();
    fixUp.finish(*this);
    mark(Moment::ends);
  }
};

} // namespace kfuse
