// Attention of many query rows on Hopper: TMA and wgmma.
//
// A block has a producer warp, of which a thread brings tiles of keys and of values by TMA into rings of their own, and
// two or three consumer warpgroups with 64 query rows each. A warpgroup multiplies the next keys while it makes weights
// of the scores before, as FlashAttention-3 does (Shah et al., 2024): scores, weights and accumulators are all in
// registers. Where heads are small two blocks share a multiprocessor: one multiplies while the other one starts, or
// stores. With `pingPong` a warpgroup multiplies while others compute weights. The producer goes on to the next rows
// that it takes for its block while the last ones' results are stored.
#pragma once

#include <kfuse/flash_queries.cuh>
#include <kfuse/flash_rows.cuh>
#include <kfuse/wgmma.cuh>

namespace kfuse {

/// Tiles of `rows` by `size` elements of `width` bytes as TMA brings them: boxes of a line of 128 bytes a row, in which
/// 16 bytes are swapped with those whose number differs by the line's.
template <int rows, int size, int width = 2> struct BoxedTile {
  static constexpr int boxes = (size * width + lineBytes - 1) / lineBytes, boxBytes = rows * lineBytes,
                       bytes = boxes * boxBytes;

  static __device__ __forceinline__ void load(unsigned to, const TensorMap *map, int firstRow, int batch,
                                              unsigned barrier, int firstColumn = 0) {
    arriveExpecting(barrier, bytes);
#pragma unroll
    for (int box = 0; box < boxes; ++box)
      loadBox(to + box * boxBytes, map, firstColumn + box * (lineBytes / width), firstRow, batch, barrier);
  }
};

/// The part of a mask's tile that lies beside a warp's accumulators (FlashRows).
template <class Tile, class Mask> struct MaskTileRows {
  static constexpr int width = sizeof(Mask);
  unsigned lines; ///< Where the warp's first line is in shared memory, in the first box.

  /// The pair of a lane in rows and columns that are multiples of eight.
  __device__ __forceinline__ Vector<Mask, 2> pair(int row, int column) const {
    const int lane = threadIdx.x % 32, line = lane / 4,
              byte = column * width % lineBytes + lane % 4 * 2 * width; // Within the box.
    const unsigned offset =
        column * width / lineBytes * Tile::boxBytes + (row + line) * lineBytes + (byte / 16 ^ line) * 16 + byte % 16;
    return loadVector<2, 2>(reinterpret_cast<const Mask *>(dynamicShared() + lines + offset));
  }
};

/// A ring of tiles with barriers "full" and "empty".
template <class Tile, int stages> struct TileRing {
  static constexpr int bytes = stages * Tile::bytes, barrierBytes = stages * 16;
  unsigned tiles, barriers;
  int stage = 0;
  unsigned parity = 0;

  __device__ __forceinline__ unsigned tile() const { return tiles + stage * Tile::bytes; }
  __device__ __forceinline__ unsigned full() const { return barriers + stage * 8; }
  __device__ __forceinline__ unsigned empty() const { return barriers + (stages + stage) * 8; }
  __device__ __forceinline__ void initBarriers(int readers) const {
    for (int i = 0; i < stages; ++i)
      initBarrier(barriers + i * 8, 1), initBarrier(barriers + (stages + i) * 8, readers);
  }
  __device__ __forceinline__ void wait() const { waitBarrier(full(), parity); }
  /// A warp has read the tile: to the next one.
  __device__ __forceinline__ void release() {
    if (leadsWarp())
      arrive(empty());
    advance();
  }
  __device__ __forceinline__ void fill(const TensorMap *map, int firstRow, int batch, int firstColumn = 0) {
    waitBarrier(empty(), parity ^ 1);
    Tile::load(tile(), map, firstRow, batch, full(), firstColumn);
    advance();
  }

protected:
  __device__ __forceinline__ void advance() {
    if (++stage == stages)
      stage = 0, parity ^= 1;
  }
};

/// The ring of a mask's tiles, beside those of keys, and how rows read them; nothing without a mask.
template <class Config, bool areBrought> struct TileMasks {
  using Read = NoMask;
  static constexpr int bytes = 0, barrierBytes = 0;
  __device__ __forceinline__ void place(unsigned, unsigned) {}
  __device__ __forceinline__ void initBarriers(int) const {}
  __device__ __forceinline__ void fill(const TensorMap *, int, int, int) {}
  __device__ __forceinline__ void wait() const {}
  __device__ __forceinline__ void release() {}
  __device__ __forceinline__ void drain() {}
  __device__ __forceinline__ Read linesFrom(int) const { return {}; }
};
/// Blocks of a cluster, Config::maskSharers of them, have the same rows of heads that share their mask: each brings a
/// part of a tile to all of them, once all have read the one before.
template <class Config>
struct TileMasks<Config, true>
    : TileRing<BoxedTile<Config::tileRows, Config::tileKeys, sizeof(typename Config::Mask)>, Config::stages> {
  using Tile = BoxedTile<Config::tileRows, Config::tileKeys, sizeof(typename Config::Mask)>;
  using Ring = TileRing<Tile, Config::stages>;
  using Read = MaskTileRows<Tile, typename Config::Mask>;
  static constexpr int sharers = Config::maskSharers, partRows = Config::tileRows / sharers;
  static_assert(partRows % 8 == 0 && Config::tileRows % sharers == 0, "lines are swapped by eight");

  __device__ __forceinline__ void initBarriers(int readers) const { Ring::initBarriers(readers * sharers); }
  __device__ __forceinline__ void release() {
    if constexpr (sharers == 1)
      return Ring::release();
    if (threadIdx.x % 32 < sharers)
      arriveInCluster(inBlock(this->empty(), threadIdx.x % 32));
    this->advance();
  }
  __device__ __forceinline__ void fill(const TensorMap *map, int firstRow, int batch, int firstColumn) {
    if constexpr (sharers == 1)
      return Ring::fill(map, firstRow, batch, firstColumn);
    waitBarrier(this->empty(), this->parity ^ 1);
    arriveExpecting(this->full(), Tile::bytes);
    const int part = int(blockInCluster()) * partRows;
#pragma unroll
    for (int box = 0; box < Tile::boxes; ++box)
      loadBoxMulticast(this->tile() + box * Tile::boxBytes + part * lineBytes, map,
                       firstColumn + box * (lineBytes / int(sizeof(typename Config::Mask))), firstRow + part, batch,
                       this->full(), (1u << sharers) - 1);
    this->advance();
  }
  /// All that was brought has been read, in all blocks: none tells this one any more.
  __device__ __forceinline__ void drain() {
    if constexpr (sharers > 1)
#pragma unroll 1
      for (int i = 0; i < Config::stages; ++i, this->advance())
        waitBarrier(this->empty(), this->parity ^ 1);
  }
  __device__ __forceinline__ void place(unsigned tiles, unsigned barriers) {
    this->tiles = tiles, this->barriers = barriers;
  }
  __device__ __forceinline__ Read linesFrom(int line) const {
    return {this->tile() - sharedAddress(dynamicShared()) + line * lineBytes};
  }
};

template <class Config, class Body, class ScoreProduct, class ValueProduct> struct FlashSm90 {
  using Index = typename Config::Index;
  static constexpr int groups = Config::warps / 4, tileRows = Config::tileRows, tileKeys = Config::tileKeys;
  static_assert(tileRows == groups * 64 && tileKeys % 16 == 0);
  static constexpr int steps = (Config::keySize + 15) / 16;
  /// On an H100, 4096 tokens, it costs 5 to 9 % with heads of 64 and saves up to 2 % with those of 128.
  static constexpr bool isLazy = Config::valueSize > 64;
  using QueryTile = BoxedTile<tileRows, Config::keySize>;
  using KeyTile = BoxedTile<tileKeys, Config::keySize>;
  using ValueTile = BoxedTile<tileKeys, Config::valueSize>;
  using Masks = TileMasks<Config, Config::bringsMask>;
  using Rows = FlashRows<Config, Body, 1, Config::valueSize, typename Masks::Read>;
  using Block = FlashBlock<Config, Body>;
  /// Behind tiles and barriers: the number of the rows that are the block's.
  static constexpr int numberOffset = QueryTile::bytes + Config::stages * (KeyTile::bytes + ValueTile::bytes) +
                                      Masks::bytes + 16 + Config::stages * 32 + Masks::barrierBytes;

  const Body &body;
  const unsigned queries = sharedAddress(dynamicShared());
  TileRing<KeyTile, Config::stages> keys{queries + QueryTile::bytes, 0};
  TileRing<ValueTile, Config::stages> values{keys.tiles + keys.bytes, 0};
  Masks masks;
  const unsigned queryFull = values.tiles + values.bytes + Masks::bytes, queryEmpty = queryFull + 8;
  unsigned queryParity = 0;

  __device__ __forceinline__ explicit FlashSm90(const Body &body) : body(body) {
    keys.barriers = queryEmpty + 8;
    values.barriers = keys.barriers + keys.barrierBytes;
    masks.place(values.tiles + values.bytes, values.barriers + values.barrierBytes);
  }

  __device__ __forceinline__ void start(bool leads) const {
    if (leads) {
      initBarrier(queryFull, 1), initBarrier(queryEmpty, Config::warps);
      keys.initBarriers(Config::warps), values.initBarriers(Config::warps), masks.initBarriers(Config::warps);
      fenceBarrierInit();
    }
    __syncwarp();
    if constexpr (Config::maskSharers > 1)
      syncClusterRelaxed();
    else
      __syncthreads();
  }

  /// One thread; its warp helps it to compare the bounds of rows. Keys are multiplied a tile ahead of values, and the
  /// next rows' first while the last ones' results are stored. With isPersistent a block takes rows as long as there
  /// are some: blocks that had few keys take more, which no order given in advance does as evenly.
  __device__ __forceinline__ void produce(bool leads, const TensorMap *keyMap, const TensorMap *valueMap,
                                          const TensorMap *queryMap, const TensorMap *maskMap, unsigned *tickets) {
    static_assert(!Config::readsOfRow || !Config::isPersistent, "the warp helps with one block's rows");
    static_assert(Config::maskSharers == 1 || !Config::isPersistent, "blocks that share masks have the same rows");
    waitForPredecessor();
    unsigned number = blockIdx.x;
#pragma unroll 1
    while (number < Config::blocks) {
      unsigned next = Config::blocks;
      auto takeNext = [&] {
        if constexpr (Config::isPersistent)
          next = gridDim.x + takeTicket(tickets, Config::blocks);
      };
      const Block block(body, number);
      if (Config::readsOfRow && !leads)
        return;
      if (block.beginTile < block.endTile) {
        const int ofKeys = body.keyBatch(block.batch), ofValues = body.valueBatch(block.batch);
        auto fillKeys = [&](Index tile) {
          keys.fill(keyMap, int(tile) * tileKeys, ofKeys);
          if constexpr (Config::bringsMask)
            masks.fill(maskMap, int(block.firstRow), body.maskBatch(block.batch), int(tile) * tileKeys);
        };
        fillKeys(block.endTile - 1);
        giveRows(number);
        if constexpr (Config::computesQuery)
          arrive(queryFull);
        else
          QueryTile::load(queries, queryMap, int(block.firstRow), body.queryBatch(block.batch), queryFull);
#pragma unroll 1
        for (Index tile = block.endTile - 1; tile > block.beginTile; --tile) {
          fillKeys(tile - 1);
          values.fill(valueMap, int(tile) * tileKeys, ofValues);
        }
        takeNext(); // While the last tiles are waited for.
        values.fill(valueMap, int(block.beginTile) * tileKeys, ofValues);
      } else {
        giveRows(number);
        arrive(queryFull);
        takeNext();
      }
      number = next;
    }
    if constexpr (Config::isPersistent) {
      giveRows(number);
      arrive(queryFull);
    }
    masks.drain();
  }

  /// A consumer warpgroup.
  __device__ __forceinline__ void consume() {
    const int warp = warpInBlock(), group = warp / 4;
    waitForPredecessor();
    unsigned number = blockIdx.x;
#pragma unroll 1
    while (receiveRows(number)) {
      const Block block(body, number);
      Rows rows(body, block, block.firstRow + warp * 16);
      if (block.beginTile < block.endTile)
        takeTiles(rows, block, group);
      else
        releaseQueries();
      mark(Moment::hasAccumulators);
      rows.store();
      if constexpr (!Config::isPersistent)
        break;
    }
    mark(Moment::ends);
  }

private:
  /// Which rows come next; their queries follow. Behind the last ones comes a number that is too large.
  __device__ __forceinline__ void giveRows(unsigned number) {
    waitBarrier(queryEmpty, queryParity ^ 1);
    queryParity ^= 1;
    if constexpr (Config::isPersistent)
      *reinterpret_cast<volatile unsigned *>(dynamicShared() + numberOffset) = number;
  }
  /// Waits for them and their queries. One lane reads which they are: the one that gives them back.
  __device__ __forceinline__ bool receiveRows(unsigned &number) {
    waitBarrier(queryFull, queryParity);
    queryParity ^= 1;
    if constexpr (Config::isPersistent) {
      const auto *given = reinterpret_cast<const volatile unsigned *>(dynamicShared() + numberOffset);
      number = largestInWarp(leadsWarp() ? *given : 0);
    }
    return number < Config::blocks;
  }
  __device__ __forceinline__ void releaseQueries() const {
    __syncwarp(); // All lanes have seen what one now gives back.
    if (leadsWarp())
      arrive(queryEmpty);
  }

  /// Its warpgroup's part of a block's tiles of keys: those from begin to end, of which all rows see the whole from
  /// beginWhole to endWhole, if any. There is a step for each tile of the block but one.
  struct Part {
    Index begin, end, beginWhole, endWhole;
    int group, steps;
    bool hasStarted = false;

    __device__ __forceinline__ Part(const Block &block, int group)
        : group(group), steps(static_cast<int>(block.endTile - block.beginTile - 1)) {
      const Index first = block.firstRow + group * 64, last = minimum(first + 63, Index(Config::rows - 1));
      const KeySpan<Index> span = block.seen.span(first, last);
      beginWhole = (span.wholeFirst + tileKeys - 1) / tileKeys;
      endWhole = maximum(span.wholeEnd, Index(0)) / tileKeys;
      begin = maximum(span.first / tileKeys, block.beginTile);
      end = minimum((maximum(span.end, Index(0)) + tileKeys - 1) / tileKeys, block.endTile);
      if (first >= Config::rows || end <= begin)
        begin = end = block.beginTile;
    }

    // With pingPong a step's products wait for those of the warpgroup before, the first one's for the last one's
    // start.
    __device__ __forceinline__ void startPingPong() {
      if (Config::pingPong && group == groups - 1 && steps > 0 && !hasStarted)
        arriveNamed(1, 256);
      hasStarted = true;
    }
    __device__ __forceinline__ void waitForTensorCores() {
      startPingPong();
      if (Config::pingPong)
        syncNamed(1 + group, 256);
    }
    __device__ __forceinline__ void passTensorCores() {
      --steps;
      if (Config::pingPong && (group < groups - 1 || steps > 0))
        arriveNamed(1 + (group + 1) % groups, 256);
    }
  };

  __device__ __forceinline__ void takeTiles(Rows &rows, const Block &block, int group) {
    Part part(block, group);
    Index tile = block.endTile - 1;
    if (part.begin < part.end) {
#pragma unroll 1
      for (; tile >= part.end; --tile)
        pass(part, true);
      takePart(rows, part, tile);
    } else {
      releaseQueries();
      part.startPingPong();
      pass(part, false);
      --tile;
    }
#pragma unroll 1
    for (; tile >= block.beginTile; --tile)
      pass(part, true);
  }

  /// A tile that no row of this warpgroup sees.
  __device__ __forceinline__ void pass(Part &part, bool isStep) {
    keys.wait();
    if (isStep)
      part.waitForTensorCores(), part.passTensorCores();
    __syncwarp();
    keys.release();
    masks.wait();
    __syncwarp();
    masks.release();
    values.wait();
    __syncwarp();
    values.release();
  }

  /// rows.weigh() with the tile of the mask.
  template <class Weigh> __device__ __forceinline__ void weigh(Rows &rows, Weigh weigh) {
    if constexpr (Config::bringsMask) {
      masks.wait();
      rows.mask = masks.linesFrom(threadIdx.x / 32 * 16);
    }
    weigh();
    if constexpr (Config::bringsMask) {
      __syncwarp(); // All have read it.
      masks.release();
    }
  }

  __device__ __forceinline__ void takePart(Rows &rows, Part &part, Index &tile) {
    typename Rows::Products products;
    typename Rows::Weights weights;
    typename Rows::Factors factors;
    if constexpr (Config::computesQuery)
      makeQueries(rows, part.group);
    keys.wait();
    mark(Moment::hasTile);
    multiplyKeys(products, part.group);
    waitProducts<0>();
    warpgroupFenceOperand(products);
    keys.release();
    weigh(rows, [&] { rows.template weigh<isLazy>(products, tile, factors); });
    waitForKeys(products, part, tile);
    Rows::pack(weights, products);
    part.startPingPong();
    using Seen = SeenKeys<Config, Body>;
    --tile;
    if constexpr (Seen::haveEnd)
#pragma unroll 1
      for (; tile >= part.begin && tile >= part.endWhole; --tile)
        step<true>(rows, products, weights, factors, part, tile);
#pragma unroll 1
    for (; tile >= part.begin && tile >= part.beginWhole; --tile)
      step<false>(rows, products, weights, factors, part, tile);
    if constexpr (Seen::haveFirst)
#pragma unroll 1
      for (; tile >= part.begin; --tile)
        step<true>(rows, products, weights, factors, part, tile);
    releaseQueries();
    values.wait();
    multiplyValues(rows, weights);
    waitProducts<0>();
    warpgroupFenceOperand(rows.accumulators);
    values.release();
  }

  /// A warpgroup's 64 rows, sixteen of each warp, where TMA would bring them: 16 bytes are swapped with those whose
  /// number within a line differs by the line's. All have been read before their number was given.
  __device__ __forceinline__ void makeQueries(const Rows &rows, int group) const {
    const int firstRow = group * 64 + warpInBlock() % 4 * 16;
    ComputedQueries<Config, Body>::template make<16>(body, rows.batch, rows.firstRow, [&](int row, int chunk) {
      const int line = firstRow + row;
      return dynamicShared() + chunk / 8 * QueryTile::boxBytes + line * lineBytes + (chunk % 8 ^ line % 8) * 16;
    });
    fenceForTma(); // wgmma reads them as TMA does.
    syncNamed(1 + groups + group, 128);
  }

  /// Multiplies the keys of `tile` and the values of the one before, and makes weights of the former meanwhile.
  template <bool isMasked>
  __device__ __forceinline__ void step(Rows &rows, typename Rows::Products &products, typename Rows::Weights &weights,
                                       typename Rows::Factors &factors, Part &part, Index tile) {
    part.waitForTensorCores();
    multiplyKeys(products, part.group);
    values.wait();
    multiplyValues(rows, weights);
    part.passTensorCores();
    waitProducts<1>();
    warpgroupFenceOperand(products);
    keys.release();
    weigh(rows, [&] { rows.template weigh<isLazy, isMasked>(products, tile, factors); });
    waitForKeys(products, part, tile);
    waitProducts<0>();
    warpgroupFenceOperand(rows.accumulators);
    values.release();
    Rows::pack(weights, products);
    rows.template rescale<isLazy>(factors);
  }

  /// Those of the tile behind `tile`. It stands between the weights and the wait for products of values, since the loop
  /// in it is what ptxas does not move weights over, to behind the products that they are made beside.
  __device__ __forceinline__ void waitForKeys(typename Rows::Products &weights, const Part &part, Index tile) {
    warpgroupFenceOperand(weights);
    if (tile > part.begin)
      keys.wait();
  }

  /// A line holds four steps of K, 32 bytes each; then comes the next box.
  __device__ __forceinline__ void multiplyKeys(typename Rows::Products &products, int group) const {
    constexpr unsigned leading = 1u << 16;
    const unsigned a = (queries + group * panelBytes & 0x3ffff) / 16 + leading,
                   b = (keys.tile() & 0x3ffff) / 16 + leading;
    fenceProducts();
#pragma unroll
    for (int step = 0; step < steps; ++step)
      ScoreProduct::multiplyAdd(products[0], descriptor(a + step / 4 * (QueryTile::boxBytes / 16) + step % 4 * 2),
                                descriptor(b + step / 4 * (KeyTile::boxBytes / 16) + step % 4 * 2), step > 0);
    commitProducts();
  }
  /// Sixteen keys a step: as many lines, of 64 columns of a box.
  __device__ __forceinline__ void multiplyValues(Rows &rows, const typename Rows::Weights &weights) const {
    constexpr unsigned leading = unsigned(ValueTile::boxBytes / 16) << 16;
    const unsigned b = (values.tile() & 0x3ffff) / 16 + leading;
    fenceProducts();
#pragma unroll
    for (int step = 0; step < tileKeys / 16; ++step)
      ValueProduct::multiplyAdd(rows.accumulators[0], weights[0][step], descriptor(b + step * 16 * lineBytes / 16), 1);
    commitProducts();
  }
};

template <class Config, class ScoreProduct, class ValueProduct, class Body>
__device__ __forceinline__ void flashSm90(const Body &body, const TensorMap *keyMap, const TensorMap *valueMap,
                                          const TensorMap *queryMap, const TensorMap *maskMap,
                                          unsigned *tickets = nullptr) {
  mark(Moment::starts);
  const int producer = warpInBlock() - Config::warps;
  const bool leads = producer == 0 && leadsWarp();
  if (leads) {
    prefetchMap(keyMap), prefetchMap(valueMap);
    if constexpr (!Config::computesQuery)
      prefetchMap(queryMap);
    if constexpr (Config::bringsMask)
      prefetchMap(maskMap);
  }
  FlashSm90<Config, Body, ScoreProduct, ValueProduct> kernel(body);
  kernel.start(leads);
  if (producer >= 0) {
    releaseRegisters<Config::warps == 8 ? 24 : 32>();
    if (leads || (Config::readsOfRow && producer == 0))
      kernel.produce(leads, keyMap, valueMap, queryMap, maskMap, tickets);
  } else {
    claimRegisters<(Config::resident > 1 ? 104 : Config::warps == 8 ? 240 : 160)>();
    kernel.consume();
  }
}

} // namespace kfuse
