// Layers of few rows in one launch: products whose rows are those of the one before, blocks that stay for all of them.
//
// Every block computes the same places of each layer's result, tiles of `tileRows` columns of the result (the 64-row
// side of the instruction, weights) by `tileColumns` of its rows (tokens). A warp keeps a ring of tiles full of
// weights, layers ahead of what is multiplied; another brings the tokens to the same stages as soon as they are there
// (chain_cluster.cuh). K is split over warpgroups, whose partial sums are added in shared memory. Where a layer reduces
// its rows, of which the blocks beside have other columns, warps send those that have the same rows their totals.
#pragma once

#include <kfuse/epilogue.cuh>
#include <kfuse/row_epilogue.cuh>
#include <kfuse/wgmma.cuh>

namespace kfuse {

/// Where a layer's operands are.
template <int bufferCount> struct LayerValues {
  const TensorMap *weights, *tokens;
  const void *buffers[bufferCount];
};

template <class Config> struct ChainPlace {
  int batch, rowBlock, column; ///< Tile of the result's columns.
};

/// What a block of a chain has: its ring, and products from there to results.
template <class Config, class Layers> struct ChainBlock {
  static constexpr int rowGroups = Config::tileRows / 64, consumerThreads = rowGroups * Config::groupsK * 128;
  static constexpr int weightsWarp = consumerThreads / 32, tokensWarp = weightsWarp + 1;
  static constexpr int vector = Config::epilogueVector, accumulatorCount = Config::tileColumns / 2;
  static constexpr int partialBytes = Config::tileColumns * Config::tileRows * 4;
  static constexpr int chunksOfRow = Config::tileRows / vector, chunks = Config::tileColumns * chunksOfRow;
  static constexpr int chunksOfThread = (chunks + consumerThreads - 1) / consumerThreads;
  static constexpr int kBlocksOfTile = rowGroups; ///< K blocks that a tile of the layer before makes.
  using Values = LayerValues<Layers::buffers>;
  using Place = ChainPlace<Config>;
  template <class Layer> static constexpr int kBlocks = (Layer::K + Config::tileK - 1) / Config::tileK;
  static_assert(Config::threads == consumerThreads + 64);
  // A stage is always the same warpgroup's (gemm_sm90_split.cuh), which gives one back when it has the next.
  static_assert(Config::stages % Config::groupsK == 0 && Config::stages >= 2 * Config::groupsK);

  Ring<Config> ring;

  static __device__ __forceinline__ Values *layers() {
    return reinterpret_cast<Values *>(dynamicShared() + Config::layersOffset);
  }

  __device__ __forceinline__ ChainBlock() {
    ring.tiles = sharedAddress(dynamicShared());
    ring.barriers = ring.tiles + Config::barriersOffset;
  }

  /// The boxes of a tile of weights: `visit(row, x, y, batch)`.
  template <class Weights, class Visit>
  static __device__ __forceinline__ void forEachBox(ChainPlace<Config> place, int k, Visit visit) {
    constexpr int boxRows = Weights::contiguousK ? Config::tileRows : 64;
    const int batch = Weights::batch(place.batch);
#pragma unroll
    for (int row = 0; row < Config::tileRows; row += boxRows) {
      const int n = place.column * Config::tileRows + row;
      visit(row, Weights::contiguousK ? k : n, Weights::contiguousK ? n : k, batch);
    }
  }

  /// A consumer's part of a layer's tile, to memory. `release(stage)`: this warp has read the stage.
  template <class Layer, class Release>
  __device__ __forceinline__ void multiply(const Values &layer, Place place, Release release) {
    using Epilogue = typename Layer::Epilogue;
    const Epilogue epilogue = Layer::epilogue(layer.buffers);
    // A thread's chunks have the same columns: where the epilogue reads nothing else, it reads it once. What the first
    // ones read is on its way while the tile is multiplied.
    static_assert(consumerThreads % chunksOfRow == 0);
    constexpr int atOnce = chunksOfThread < 4 ? chunksOfThread : 4, loads = Layer::readsRows ? atOnce : 1;
    typename Epilogue::Operands x[loads];
    auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < loads; ++i)
        if (const Chunk at = chunk<Layer>(place, first + i); at.exists)
          epilogue.load(x[i], place.batch, at.row, at.column, at.lanes);
    };
    if constexpr (!Layer::readsResults)
      load(0);
    sumUp<Layer>(release);
    syncNamed(1, consumerThreads);
#pragma unroll 1
    for (int first = 0; first < chunksOfThread; first += atOnce) {
      if (Layer::readsResults ? Layer::readsRows || first == 0 : Layer::readsRows && first > 0)
        load(first);
#pragma unroll
      for (int i = 0; i < atOnce; ++i)
        if (const Chunk at = chunk<Layer>(place, first + i); at.exists)
          epilogue.apply(x[i < loads ? i : 0], total(at), place.batch, at.row, at.column, at.lanes);
    }
  }

  /// The same of a layer that reduces its rows: `exchange` adds up what the blocks beside have of them.
  template <class Layer, class Release, class Exchange>
  __device__ __forceinline__ void multiplyRows(const Values &layer, Place place, Release release, Exchange &exchange) {
    using Epilogue = typename Layer::Epilogue;
    const Epilogue epilogue = Layer::epilogue(layer.buffers);
    constexpr bool isShared = !Layer::readsResults && !Layer::readsRows; // One load for all chunks, as in multiply().
    typename Epilogue::Element::Operands element;
    typename Epilogue::Operands result;
    if constexpr (isShared) {
      const Chunk any = chunk<Layer>(place, 0);
      load(element, epilogue, place, any), load(result, epilogue, place, any);
    }
    sumUp<Layer>(release);
    syncNamed(1, consumerThreads);
    Vector<float, vector> values[chunksOfThread];
    typename Epilogue::Row rows[chunksOfThread];
    forEachChunk<Layer>(place, [&](int i, const Chunk &at) {
      epilogue.begin(rows[i], place.batch, rowOf(at));
      if constexpr (!isShared)
        load(element, epilogue, place, at);
      values[i] = {};
      if (at.exists)
        values[i] = epilogue.compute(element, total(at), place.batch, at.row, at.column, at.lanes);
    });
    reduceAll<Layer>(typename Epilogue::Reductions{}, epilogue, place, values, rows, exchange);
    forEachChunk<Layer>(place, [&](int i, const Chunk &at) {
      if constexpr (!isShared)
        load(result, epilogue, place, at);
      if (at.exists)
        epilogue.apply(result, rows[i], values[i], place.batch, at.row, at.column, at.lanes);
    });
  }

private:
  template <class Layer, class... Reductions, class Epilogue, class Exchange>
  static __device__ __forceinline__ void reduceAll(Steps<Reductions...>, const Epilogue &epilogue, Place place,
                                                   const Vector<float, vector> (&values)[chunksOfThread],
                                                   typename Epilogue::Row (&rows)[chunksOfThread], Exchange &exchange) {
    (reduce<Layer, Reductions>(epilogue, place, values, rows, exchange), ...);
  }
  template <class Layer, class Reduction, class Epilogue, class Exchange>
  static __device__ __forceinline__ void reduce(const Epilogue &epilogue, Place place,
                                                const Vector<float, vector> (&values)[chunksOfThread],
                                                typename Epilogue::Row (&rows)[chunksOfThread], Exchange &exchange) {
    using Operation = typename Reduction::Operation;
    float totals[chunksOfThread];
    forEachChunk<Layer>(place, [&](int i, const Chunk &at) {
      Partial<Operation, float, vector> partial;
      if (at.exists) {
        typename Reduction::Operands x;
        epilogue.load(x, place.batch, at.row, at.column, at.lanes);
        const Vector<float, vector> y =
            epilogue.compute(x, rows[i], values[i], place.batch, at.row, at.column, at.lanes);
#pragma unroll
        for (int j = 0; j < vector; ++j)
          if (j < at.lanes)
            partial.add(j, y[j]);
      }
      totals[i] = partial.total();
    });
    exchange.template reduce<Operation>(totals);
    forEachChunk<Layer>(
        place, [&](int i, const Chunk &at) { epilogue.end(Reduction{}, rows[i], totals[i], place.batch, rowOf(at)); });
  }

  /// This warpgroup's accumulators over its K blocks, to its partial sums.
  template <class Layer, class Release> __device__ __forceinline__ void sumUp(Release release) {
    const int warpgroup = warpInBlock() / 4, rowGroup = warpgroup % rowGroups, groupK = warpgroup / rowGroups;
    const int before = (groupK + Config::groupsK - ring.stage % Config::groupsK) % Config::groupsK;
    float accumulators[1][accumulatorCount] = {};
    int previous = -1;
    Ring<Config> at = ring;
    at.skip(before);
#pragma unroll 1
    for (int kBlock = before; kBlock < kBlocks<Layer>; kBlock += Config::groupsK) {
      waitBarrier(at.full(), at.parity);
      if (kBlock == before)
        mark(Moment::hasTile);
      multiplyTile<typename Layer::Weights, typename Layer::Tokens, typename Layer::Product>(
          accumulators, at.rows() + rowGroup * panelBytes, at.columns(), true);
      waitProducts<1>();
      if (previous >= 0)
        release(previous);
      previous = at.stage;
      at.advance(Config::groupsK);
    }
    waitProducts<0>();
    if (previous >= 0)
      release(previous);
    ring.skip(kBlocks<Layer>);
    warpgroupFenceOperand(accumulators);
    mark(Moment::hasAccumulators);
    stage(accumulators[0], rowGroup, groupK);
  }

  /// Where the sum of a token and a column lies in partial sums: tokens change the eights of columns, so that neither
  /// those who write nor those who read have bank conflicts.
  static __device__ __forceinline__ int placeOfSum(int token, int column) {
    return token * Config::tileRows + (column ^ (token / 2 % 4 * 8));
  }

  /// A lane holds two neighbouring tokens of columns lane / 4 and lane / 4 + 8 in every eight tokens.
  __device__ __forceinline__ void stage(const float (&accumulators)[accumulatorCount], int rowGroup, int groupK) const {
    float *partial = reinterpret_cast<float *>(dynamicShared() + Config::partialsOffset + groupK * partialBytes);
    const int r = rowGroup * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, c = threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < Config::tileColumns / 8; ++j) {
      const float *from = &accumulators[j * 4];
      const int token = j * 8 + c;
      partial[placeOfSum(token, r)] = from[0], partial[placeOfSum(token + 1, r)] = from[1];
      partial[placeOfSum(token, r + 8)] = from[2], partial[placeOfSum(token + 1, r + 8)] = from[3];
    }
  }

  /// Neighbouring columns of a token that a thread finishes.
  struct Chunk {
    int token, ofTile; ///< In the tile.
    int row, column, lanes;
    bool exists;
  };
  template <class Layer> static __device__ __forceinline__ Chunk chunk(ChainPlace<Config> place, int number) {
    const int at = number * consumerThreads + threadIdx.x, token = at / chunksOfRow, ofTile = at % chunksOfRow * vector;
    const int row = place.rowBlock * Config::tileColumns + token, column = place.column * Config::tileRows + ofTile;
    return {token,
            ofTile,
            row,
            column,
            columnsAt<Layer, vector>(column),
            at < chunks && row < Config::M && column < Layer::N};
  }
  template <class Operands, class Epilogue>
  static __device__ __forceinline__ void load(Operands &x, const Epilogue &epilogue, ChainPlace<Config> place,
                                              const Chunk &at) {
    if (at.exists)
      epilogue.load(x, place.batch, at.row, at.column, at.lanes);
  }
  /// This thread's chunks in order.
  template <class Layer, class Visit>
  static __device__ __forceinline__ void forEachChunk(ChainPlace<Config> place, Visit visit) {
#pragma unroll
    for (int i = 0; i < chunksOfThread; ++i)
      visit(i, chunk<Layer>(place, i));
  }
  /// Its row; past the edge, the last one.
  static __device__ __forceinline__ int rowOf(const Chunk &at) { return minimum(at.row, Config::M - 1); }
  static __device__ __forceinline__ Vector<float, vector> total(const Chunk &at) {
    const float *partial =
        reinterpret_cast<const float *>(dynamicShared() + Config::partialsOffset) + placeOfSum(at.token, at.ofTile);
    Vector<float, vector> sum{};
#pragma unroll
    for (int group = 0; group < Config::groupsK; ++group) {
      const auto accumulators = *reinterpret_cast<const Vector<float, vector> *>(partial + group * (partialBytes / 4));
#pragma unroll
      for (int j = 0; j < vector; ++j)
        sum[j] += accumulators[j];
    }
    return sum;
  }
};

} // namespace kfuse
