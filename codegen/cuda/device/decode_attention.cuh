// Attention of few query rows with many keys: the keys are split over blocks and their warps.
#pragma once

#include <kfuse/copy.cuh>
#include <kfuse/math.cuh>
#include <kfuse/mma.cuh>

namespace kfuse {

/// Up to 16 query rows share the keys and values of one pair (a sequence and a head): blockIdx.x is the pair,
/// blockIdx.y the part of its keys. Every warp has a pipeline of its own for every warps-th tile of keys and a
/// softmax of its own, as in "FlashAttention-2" (Dao, 2023) with rows instead of blocks of them; what warps and
/// blocks found is put together by their maxima and sums. The block of a pair that arrives last does so for
/// all, in the order of the parts.
template <class Config, class Body> struct DecodeAttention {
  using Index = typename Config::Index;
  using Element = typename Config::Element;
  static constexpr int tileKeys = Config::tileKeys, warps = Config::warps, stages = Config::stages;
  static constexpr int rows = Config::rows, keySize = Config::keySize, valueSize = Config::valueSize;
  static constexpr int threads = warps * 32;
  using KeyTile = SharedTile<tileKeys, Config::keyPitch>;
  using ValueTile = SharedTile<tileKeys, Config::valuePitch>;
  static constexpr int stageBytes = KeyTile::bytes + ValueTile::bytes;
  static constexpr float log2e = 1.44269504f;
  static constexpr bool hasUpper = rows > 8; ///< Rows 8 to 15 of the fragments.

  /// Sums of one part of the keys: a row's values weighed by 2^(score - maximum), and the sum of these weights.
  struct alignas(16) Part {
    float values[rows][valueSize];
    float maximum[rows], weight[rows];
  };

  /// What this kernel computes for a pair, before anything reads it.
  template <int count, int size> struct alignas(16) Rows {
    Element at[count][size + 8]; ///< Eight rows below each other lie in different banks.
  };
  template <int size> struct alignas(16) Rows<0, size> {};
  struct Fresh {
    Rows<Config::computesQuery ? rows : 0, keySize> query;
    Rows<Config::newKeys, keySize> keys;
    Rows<Config::newValues, valueSize> values;
  };

  const Body &body;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Index pair = blockIdx.x;
  typename Body::Fixed fixed = body.at(pair);
  Index count = fixed.count < Config::keys ? (fixed.count > 0 ? fixed.count : 0) : Config::keys;
  Index tiles = (count + tileKeys - 1) / tileKeys, ofSplit = (tiles + Config::splits - 1) / Config::splits;
  Index first = Index(blockIdx.y) * ofSplit, end = minimum(first + ofSplit, tiles); ///< Tiles of this block.
  Index loading = first + warp;                                                     ///< The tile to copy next.

  // Of this warp.
  unsigned query[keySize / 16][4];
  float sums[valueSize / 8][4];
  float maximum[2] = {-infinity, -infinity}, weight[2] = {0, 0}; ///< Of rows lane / 4 and 8 below.

  //===- What is computed ----------------------------------------------------------------------===//

  /// Whether this block reads one of `number` new rows from `position` on.
  __device__ __forceinline__ bool holds(Index position, int number) const {
    return position + number > first * tileKeys && position < end * tileKeys;
  }

  /// Queries, and the rows that this block reads or writes: each pair's first block writes them, all who read them
  /// have their own.
  __device__ __forceinline__ void makeFresh(Fresh &fresh) const {
    int begin = 0;
    if constexpr (Config::computesQuery)
      forChunks<rows, keySize>(begin, [&](int row, int d) { body.makeQuery(&fresh.query.at[row][d], pair, row, d); });
    if constexpr (Config::newKeys > 0)
      if (blockIdx.y == 0 || holds(fixed.newKey, Config::newKeys))
        forChunks<Config::newKeys, keySize>(begin, [&](int row, int d) {
          body.makeKey(&fresh.keys.at[row][d], pair, row, d);
          if (blockIdx.y == 0 && fixed.newKey >= 0)
            copyChunk(body.placeKey(pair, row) + d, &fresh.keys.at[row][d]);
        });
    if constexpr (Config::newValues > 0)
      if (blockIdx.y == 0 || holds(fixed.newValue, Config::newValues))
        forChunks<Config::newValues, valueSize>(begin, [&](int row, int d) {
          body.makeValue(&fresh.values.at[row][d], pair, row, d);
          if (blockIdx.y == 0 && fixed.newValue >= 0)
            copyChunk(body.placeValue(pair, row) + d, &fresh.values.at[row][d]);
        });
    if constexpr (Config::computesQuery || Config::newKeys > 0 || Config::newValues > 0)
      __syncthreads();
  }

  /// Calls use(row, d) for chunks of eight, one a thread, beginning with the thread that has none yet.
  template <int count, int size, class Use> static __device__ __forceinline__ void forChunks(int &begin, Use use) {
    constexpr int chunks = size / 8;
    for (int at = (static_cast<int>(threadIdx.x) + threads - begin) % threads; at < count * chunks; at += threads)
      use(at / chunks, at % chunks * 8);
    begin = (begin + count * chunks) % threads;
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
    return sharedAddress(dynamicShared()) + (warp * stages + stage) * stageBytes;
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
        multiply(sums[2 * d], weights[n], b[0], b[1]);
        multiply(sums[2 * d + 1], weights[n], b[2], b[3]);
      }
  }

  /// From products to 2^(score - maximum) as operands of the second product; older sums are scaled to the new maximum.
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
        sums[d][i] *= scale[i / 2];
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
        sums[d][i] = 0;
    int stage = 0;
#pragma unroll 1
    for (Index tile = first + warp; tile < end; tile += warps) {
      waitCopies<stages - 2>();
      __syncwarp();
      startNext(stage == 0 ? stages - 1 : stage - 1); // Read in the last round.
      if constexpr (Config::newKeys > 0)
        replaceRows<KeyTile, keySize>(stageAt(stage), tile * tileKeys, fixed.newKey, fresh.keys);
      if constexpr (Config::newValues > 0)
        replaceRows<ValueTile, valueSize>(stageAt(stage) + KeyTile::bytes, tile * tileKeys, fixed.newValue,
                                          fresh.values);
      takeTile(stage, tile * tileKeys);
      stage = stage + 1 == stages ? 0 : stage + 1;
    }
    waitCopies<0>();
#pragma unroll
    for (int half = 0; half < 2; ++half)
      weight[half] = reduceSum(weight[half]);
  }

  //===- Putting parts together ----------------------------------------------------------------===//

  /// This warp's sums as a part in shared memory.
  __device__ __forceinline__ void leavePart(Part &part) const {
#pragma unroll
    for (int half = 0; half <= int(hasUpper); ++half) {
      int row = lane / 4 + half * 8;
      if (row >= rows)
        continue;
      if (lane % 4 == 0)
        part.maximum[row] = maximum[half], part.weight[row] = weight[half];
#pragma unroll
      for (int d = 0; d < valueSize / 8; ++d)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          part.values[row][d * 8 + lane % 4 * 2 + i] = sums[d][half * 2 + i];
    }
  }

  /// Memory that blocks share to put parts together.
  struct Factors {
    static constexpr int most = warps > Config::splits ? warps : Config::splits;
    float part[most * rows];   ///< What brings a part's row to the highest maximum.
    float weight[most * rows]; ///< Of a part's row.
    float maximum[rows], total[rows];
  };

  /// Maxima and weights of `number` parts are read at once: from other blocks, each read takes 0.7 us.
  static __device__ __forceinline__ void findFactors(const Part *parts, int number, Factors &factors) {
    for (int at = threadIdx.x; at < number * rows; at += threads) {
      factors.part[at] = parts[at / rows].maximum[at % rows];
      factors.weight[at] = parts[at / rows].weight[at % rows];
    }
    __syncthreads();
    if (threadIdx.x < rows) {
      float highest = -infinity, sum = 0;
      for (int at = threadIdx.x; at < number * rows; at += rows)
        highest = fmaxf(highest, factors.part[at]);
      const float base = highest == -infinity ? 0.0f : highest;
      for (int at = threadIdx.x; at < number * rows; at += rows) {
        factors.part[at] = powerOfTwo(factors.part[at] - base);
        sum += factors.part[at] * factors.weight[at];
      }
      factors.maximum[threadIdx.x] = highest;
      factors.total[threadIdx.x] = sum;
    }
    __syncthreads();
  }

  /// Calls `use(row, d, values)` with the sum of all parts, four values a thread.
  template <class Use>
  static __device__ __forceinline__ void addParts(const Part *parts, int number, const float *factors, Use use) {
    for (int at = threadIdx.x * 4; at < rows * valueSize; at += threads * 4) {
      int row = at / valueSize, d = at % valueSize;
      Vector<float, 4> sum{};
#pragma unroll 8
      for (int part = 0; part < number; ++part) {
        auto values = *reinterpret_cast<const Vector<float, 4> *>(&parts[part].values[row][d]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sum[i] += factors[part * rows + row] * values[i];
      }
      use(row, d, sum);
    }
  }

  /// Stores the sum of what all blocks of the pair left. Where a thread has four values of it, it reads them while
  /// their factors are found.
  __device__ __forceinline__ void addAll(const Part *all, Factors &factors) const {
    constexpr int mostHeld = 16; // 64 registers.
    if constexpr (rows * valueSize <= threads * 4 && Config::splits <= mostHeld) {
      const int at = threadIdx.x * 4, row = at / valueSize, d = at % valueSize;
      const bool isMine = row < rows;
      Vector<float, 4> held[Config::splits];
#pragma unroll
      for (int part = 0; part < Config::splits; ++part)
        if (isMine)
          held[part] = *reinterpret_cast<const Vector<float, 4> *>(&all[part].values[row][d]);
      findFactors(all, Config::splits, factors);
      if (!isMine)
        return;
      Vector<float, 4> sum{};
#pragma unroll
      for (int part = 0; part < Config::splits; ++part)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sum[i] += factors.part[part * rows + row] * held[part][i];
      store(row, d, sum, factors.total[row]);
    } else {
      findFactors(all, Config::splits, factors);
      addParts(all, Config::splits, factors.part,
               [&](int row, int d, const Vector<float, 4> &sum) { store(row, d, sum, factors.total[row]); });
    }
  }

  __device__ __forceinline__ void store(int row, int d, Vector<float, 4> sum, float weight) const {
    const float factor = Config::emptyIsZero && weight == 0.0f ? 0.0f : 1.0f / weight;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum[i] *= factor;
    body.store(pair, row, d, sum);
  }

  __device__ __forceinline__ void run(unsigned *arrivals, Part *partials) {
    __shared__ Fresh fresh;
    mark(Moment::starts);
#pragma unroll
    for (int stage = 0; stage < stages - 1; ++stage)
      startNext(stage);
    if constexpr (Config::readsAhead) // The cache is as the last run left it.
      waitForPredecessor();
    makeFresh(fresh);
    loadQuery(fresh);
    mark(Moment::hasTile);
    takeTiles(fresh);
    mark(Moment::hasSums);
    __syncthreads(); // The tiles' memory is free.
    Part *parts = reinterpret_cast<Part *>(dynamicShared());
    __shared__ Factors factors;
    leavePart(parts[warp]);
    __syncthreads();
    findFactors(parts, warps, factors);
    if constexpr (Config::splits == 1) {
      addParts(parts, warps, factors.part,
               [&](int row, int d, const Vector<float, 4> &sum) { store(row, d, sum, factors.total[row]); });
    } else {
      Part &mine = partials[pair * Config::splits + Index(blockIdx.y)];
      addParts(parts, warps, factors.part, [&](int row, int d, const Vector<float, 4> &sum) {
        *reinterpret_cast<Vector<float, 4> *>(&mine.values[row][d]) = sum;
      });
      if (threadIdx.x < rows)
        mine.maximum[threadIdx.x] = factors.maximum[threadIdx.x], mine.weight[threadIdx.x] = factors.total[threadIdx.x];
      __shared__ unsigned before;
      __syncthreads();
      if (threadIdx.x == 0)
        before = countArrival(arrivals + pair);
      __syncthreads();
      if (before != Config::splits - 1)
        return;
      addAll(partials + pair * Config::splits, factors);
      if (threadIdx.x == 0)
        arrivals[pair] = 0;
    }
    mark(Moment::ends);
  }
};

} // namespace kfuse
