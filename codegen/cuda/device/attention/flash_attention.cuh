// Attention of many query rows through mma.sync: softmax(q k^T) v tile by tile of keys, without scores in memory.
#pragma once

#include <kfuse/copy.cuh>
#include <kfuse/flash_queries.cuh>
#include <kfuse/flash_rows.cuh>
#include <kfuse/flash_splits.cuh>
#include <kfuse/mma.cuh>

namespace kfuse {

/// `rows` x `columns` 16-bit elements in chunks of 16 bytes, an odd number of them from a row to the next: eight chunks
/// below each other, which ldmatrix reads at once, lie in different banks, and each lies at a fixed distance from a
/// lane's first. Behind the columns are zeros, up to what an mma takes.
template <int rows, int columns> struct PaddedTile {
  static constexpr int size = (columns + 15) / 16 * 16, chunks = size / 8, filled = columns / 8;
  static constexpr int rowBytes = (chunks | 1) * 16, bytes = rows * rowBytes;
  static __device__ __forceinline__ unsigned offset(int row, int chunk) { return row * rowBytes + chunk * 16; }
};

/// Where new rows of a batch's keys and values lie in the cache (Config::newKeys, newValues): the body reads it.
template <class Body, bool writes> struct NewRowsAt : Body::NewRowsAt {
  template <class Index>
  __device__ __forceinline__ NewRowsAt(const Body &body, Index batch) : Body::NewRowsAt(body.newRowsAt(batch)) {}
};
template <class Body> struct NewRowsAt<Body, false> {
  template <class Index> __device__ __forceinline__ NewRowsAt(const Body &, Index) {}
};

/// A block has `tileRows` query rows of one head, of which each warp has its own, and takes their keys tile by tile,
/// the last first: warps share nothing but tiles. Those of keys and of values take turns in a ring of `stages` slots:
/// while one is multiplied, the copies of the next stages - 1 are under way. Of few rows the keys are split over
/// blocks.
///
/// New rows of the cache (Config::newKeys, newValues) are read from where they come from, old ones from the cache, so
/// that no block waits for another: a pair's first block writes them.
template <class Config, class Body> struct FlashAttention {
  using Index = typename Config::Index;
  using Element = typename Config::Element;
  static constexpr int tileRows = Config::tileRows, tileKeys = Config::tileKeys, warps = Config::warps,
                       stages = Config::stages;
  static constexpr int threads = warps * 32, warpRows = tileRows / warps, fragments = warpRows / 16;
  static_assert(warpRows % 16 == 0 && tileKeys % 16 == 0 && stages >= 2);
  using QueryTile = PaddedTile<tileRows, Config::keySize>;
  using KeyTile = PaddedTile<tileKeys, Config::keySize>;
  using ValueTile = PaddedTile<tileKeys, Config::valueSize>;
  static constexpr int slotBytes = KeyTile::bytes > ValueTile::bytes ? KeyTile::bytes : ValueTile::bytes;
  static constexpr int steps = KeyTile::size / 16, columns = ValueTile::size / 16;
  using Mask = HeldMask<Config, Body, fragments, Config::holdsMask>;
  using Rows = FlashRows<Config, Body, fragments, ValueTile::size, Mask>;
  static constexpr int leastTiles = tileKeys < 128 ? 128 / tileKeys : 1; ///< Fewer are not worth a split.

  const Body &body;
  const FlashBlock<Config, Body> block;
  static constexpr bool writesCache = Config::newKeys + Config::newValues > 0;
  const NewRowsAt<Body, writesCache> newRowsAt{body, block.batch};
  /// This block's tiles, and behind the last key that its rows see.
  const int tiles = static_cast<int>(block.endTile - block.beginTile);
  const int ofSplit = Config::splits == 1 ? tiles : maximum(leastTiles, (tiles + Config::splits - 1) / Config::splits);
  const int live = Config::splits == 1 ? 1 : maximum(1, (tiles + ofSplit - 1) / ofSplit); ///< Splits that have tiles.
  const Index beginTile = block.beginTile + Index(blockIdx.y) * ofSplit,
              endTile = minimum(beginTile + ofSplit, block.endTile);
  const Index endKey = Config::readsBounds ? minimum(block.endTile * tileKeys, block.endKey) : Index(Config::keys);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned queries, ring = queries + QueryTile::bytes;
  Rows rows{body, block, block.firstRow + warp *warpRows};
  unsigned heldQuery[Config::holdsQuery ? fragments : 1][Config::holdsQuery ? steps : 1][4];

  //===- Loads ---------------------------------------------------------------------------------===//

  /// Starts the copy of `count` rows from `first` on to a tile; those from `end` on become zeros.
  template <class Tile, int count, class RowAt>
  static __device__ __forceinline__ void startRows(unsigned to, Index first, Index end, RowAt rowAt) {
    if (first + count <= end)
      startRows<Tile, count>(to, [&](int row) { return rowAt(first + row); }, [](int) { return true; });
    else
      startRows<Tile, count>(
          to, [&](int row) { return rowAt(first + row < end ? first + row : end - 1); },
          [&](int row) { return first + row < end; });
  }
  template <class Tile, int count, class RowAt, class Exists>
  static __device__ __forceinline__ void startRows(unsigned to, RowAt rowAt, Exists exists) {
    constexpr int total = count * Tile::chunks, turns = (total + threads - 1) / threads;
    constexpr bool isBelow = threads % Tile::chunks == 0; // A thread's chunks lie below each other.
    const int firstRow = threadIdx.x / Tile::chunks, firstChunk = threadIdx.x % Tile::chunks;
#pragma unroll(isBelow &&turns <= 16 ? turns : 4) // Each takes an address.
    for (int i = 0; i < turns; ++i) {
      const int at = i * threads + threadIdx.x;
      const int row = isBelow ? firstRow + i * (threads / Tile::chunks) : at / Tile::chunks;
      const int chunk = isBelow ? firstChunk : at % Tile::chunks;
      if (total % threads != 0 && at >= total)
        break;
      const bool isFilled = Tile::filled == Tile::chunks || chunk < Tile::filled;
      copyAsync<16>(to + Tile::offset(row, chunk), rowAt(row) + (isFilled ? chunk * 8 : 0),
                    isFilled && exists(row) ? 16 : 0);
    }
  }

  /// Starts the copies of values or keys of the tile `ahead` behind `tile`, if there is one. Groups of copies are
  /// counted: one is committed either way.
  template <bool values> __device__ __forceinline__ void startAhead(unsigned slot, Index tile, int ahead) const {
    const Index at = tile - ahead;
    if (at >= beginTile) {
      if constexpr (values)
        startRows<ValueTile, tileKeys>(slot, at * tileKeys, endKey, [&](Index key) { return rowOf<true>(key); });
      else
        startRows<KeyTile, tileKeys>(slot, at * tileKeys, endKey, [&](Index key) { return rowOf<false>(key); });
    }
    commitCopies();
  }

  /// Where a value or a key is.
  template <bool values> __device__ __forceinline__ const Element *rowOf(Index key) const {
    if constexpr (writesCache)
      return values ? body.value(block.batch, key, newRowsAt) : body.key(block.batch, key, newRowsAt);
    else
      return values ? body.value(block.batch, key) : body.key(block.batch, key);
  }

  /// Writes the new rows of a batch into the cache; those of a sequence that the run does not have are old memory.
  __device__ __forceinline__ void keepNewRows() const {
    if (block.firstRow > 0 || blockIdx.y > 0 || block.isBehindRun(body))
      return;
    if constexpr (Config::newKeys > 0)
      for (int at = threadIdx.x; at < Config::newKeys * KeyTile::filled; at += threads)
        body.keepKey(block.batch, at / KeyTile::filled, at % KeyTile::filled * 8, newRowsAt);
    if constexpr (Config::newValues > 0)
      for (int at = threadIdx.x; at < Config::newValues * ValueTile::filled; at += threads)
        body.keepValue(block.batch, at / ValueTile::filled, at % ValueTile::filled * 8, newRowsAt);
  }

  __device__ __forceinline__ unsigned slotAfter(unsigned slot) const {
    return slot + slotBytes < ring + stages * slotBytes ? slot + slotBytes : ring;
  }

  __device__ __forceinline__ void loadQuery(unsigned (&query)[4], int fragment, int step) const {
    loadMatrices(query, queries + QueryTile::offset(warp * warpRows + fragment * 16 + lane % 16, step * 2 + lane / 16));
  }

  //===- Products ------------------------------------------------------------------------------===//

  __device__ __forceinline__ void multiplyKeys(typename Rows::Products &products, unsigned keys) const {
    const unsigned lanes = keys + KeyTile::offset(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      unsigned query[fragments][4];
#pragma unroll
      for (int f = 0; f < fragments; ++f)
        if constexpr (Config::holdsQuery) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            query[f][i] = heldQuery[f][step][i];
        } else {
          loadQuery(query[f], f, step);
        }
#pragma unroll
      for (int n = 0; n < tileKeys / 16; ++n) {
        unsigned b[4];
        loadMatrices(b, lanes + KeyTile::offset(n * 16, step * 2));
#pragma unroll
        for (int f = 0; f < fragments; ++f)
          multiply(products[f], n, query[f], b);
      }
    }
  }

  /// Multiplies values by weights, which it makes of scores for 16 keys at a time: instructions of both kinds take
  /// turns.
  __device__ __forceinline__ void multiplyValues(typename Rows::Products &scores, const typename Rows::Shifts &shifts,
                                                 unsigned values) {
    const unsigned lanes = values + ValueTile::offset(lane % 16, lane / 16);
#pragma unroll
    for (int n = 0; n < tileKeys / 16; ++n) {
      unsigned weights[fragments][4];
      rows.weighNext(weights, scores, shifts, n);
#pragma unroll
      for (int d = 0; d < columns; ++d) {
        unsigned b[4];
        loadMatricesTransposed(b, lanes + ValueTile::offset(n * 16, d * 2));
#pragma unroll
        for (int f = 0; f < fragments; ++f)
          multiply(rows.accumulators[f], d, weights[f], b);
      }
    }
  }

  /// The 16 columns from 16 * n on of a fragment's accumulators.
  template <int count>
  static __device__ __forceinline__ void multiply(float (&accumulators)[count], int n, const unsigned (&a)[4],
                                                  const unsigned (&b)[4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      multiplyAdd(Element{}, reinterpret_cast<float(&)[4]>(accumulators[n * 8 + half * 4]), a, b[half * 2],
                  b[half * 2 + 1]);
  }

  //===- All tiles -----------------------------------------------------------------------------===//

  __device__ __forceinline__ void startQueries() const {
    startRows<QueryTile, tileRows>(queries, block.firstRow, Index(Config::rows),
                                   [&](Index row) { return body.query(block.batch, row); });
  }

  __device__ __forceinline__ void takeTiles() {
    if constexpr (!Config::computesQuery)
      startQueries();
#pragma unroll
    for (int i = 0; i < stages - 1; ++i) // The queries count to the first group.
      if (i % 2 == 0)
        startAhead<false>(ring + i * slotBytes, endTile - 1, i / 2);
      else
        startAhead<true>(ring + i * slotBytes, endTile - 1, i / 2);
    if constexpr (Config::computesQuery) // While keys come.
      ComputedQueries<Config, Body>::template make<warpRows>(body, block.batch, rows.firstRow, [&](int row, int chunk) {
        return dynamicShared() + QueryTile::offset(warp * warpRows + row, chunk);
      });
    unsigned reading = ring, writing = ring + (stages - 1) * slotBytes;
    auto nextToWrite = [&] {
      if constexpr (stages == 2) // The other one, which takes no register.
        return 2 * ring + slotBytes - reading;
      const unsigned slot = writing;
      writing = slotAfter(writing);
      return slot;
    };
    if constexpr (Config::holdsQuery) {
      waitCopies<stages - 2>();
      __syncthreads();
#pragma unroll
      for (int f = 0; f < fragments; ++f)
#pragma unroll
        for (int step = 0; step < steps; ++step)
          loadQuery(heldQuery[f][step], f, step);
    }
    mark(Moment::hasTile);
#pragma unroll 1
    for (Index tile = endTile - 1; tile >= beginTile; --tile) {
      const bool counts = rows.sees(tile);
      typename Rows::Products scores = {};
      typename Rows::Shifts shifts;
      // The keys have come, and all have read what was in the slot that is the next to write.
      waitCopies<stages - 2>();
      __syncthreads();
      startAhead<stages % 2 == 0>(nextToWrite(), tile, (stages - 1) / 2);
      if (counts) {
        multiplyKeys(scores, reading);
        rows.scoreAll(scores, tile, shifts);
      }
      reading = slotAfter(reading);
      waitCopies<stages - 2>();
      __syncthreads();
      startAhead<stages % 2 != 0>(nextToWrite(), tile, stages / 2);
      if (counts)
        multiplyValues(scores, shifts, reading);
      reading = slotAfter(reading);
    }
    waitCopies<0>();
  }

  /// The tile of rows of this number, in shared memory from `shared` on.
  __device__ __forceinline__ FlashAttention(const Body &body, unsigned number, unsigned shared)
      : body(body), block(body, number), queries(shared) {}
  __device__ __forceinline__ explicit FlashAttention(const Body &body)
      : FlashAttention(body, blockIdx.x, sharedAddress(dynamicShared())) {}
  __device__ __forceinline__ void run(unsigned *arrivals = nullptr, float *partials = nullptr) {
    if (Config::splits > 1 && int(blockIdx.y) >= live)
      return;
    mark(Moment::starts);
    takeTiles();
    mark(Moment::hasAccumulators);
    if constexpr (writesCache)
      keepNewRows();
    if (Config::splits == 1 || FlashSplits<Rows, Config::splits, threads>{arrivals, partials}.gather(rows, live))
      rows.store();
    mark(Moment::ends);
  }
};

} // namespace kfuse
