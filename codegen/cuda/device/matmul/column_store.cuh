// From the accumulators of a swapped product to a dense 16-bit result, through TMA.
#pragma once

#include <kfuse/warp_store.cuh>
#include <kfuse/wgmma.cuh>

namespace kfuse {

/// The 64 columns of the result that a warpgroup holds, by Config::tileColumns of its rows: a lane has two neighbouring
/// rows of columns lane / 4 and lane / 4 + 8 in every eight rows. The epilogue finishes them where they are, two
/// columns a lane, whatever the row; they are transposed on their way to shared memory, lines of 64 columns, from where
/// TMA takes them. 88 rows of 128 columns leave a block in 0.3 us; in f32, transposed by scattered stores, they
/// took 1.6.
///
/// All rows at once, or `pieceRows` at a time, in one of two buffers while TMA takes the other.
template <class Config, int pieceRows = Config::tileColumns> struct ColumnStore {
  using Index = typename Config::Index;
  static constexpr int rows = Config::tileColumns, pieces = rows / pieceRows, buffers = pieces > 1 ? 2 : 1;
  static constexpr int bufferBytes = pieceRows * lineBytes, bytes = buffers * bufferBytes;
  static_assert(rows % 8 == 0 && rows % pieceRows == 0 && Config::epilogueVector == 1);

  unsigned staged; ///< This warpgroup's memory, at a multiple of 1024, as the swizzle needs.

  /// What the epilogue reads for this lane's columns.
  template <class Epilogue> struct Ahead {
    typename Epilogue::Operands x[2];
  };
  template <class Epilogue>
  static __device__ __forceinline__ Ahead<Epilogue> load(const ToTiles<Epilogue> &to, Index batch, Index row,
                                                         Index column) {
    Ahead<Epilogue> ahead;
#pragma unroll
    for (int half = 0; half < 2; ++half) // Past the edge the last column is as good as any.
      to.epilogue.load(ahead.x[half], batch, row, minimum(columnOf(column, half), Index(Config::N - 1)), 1);
    return ahead;
  }

  /// The warpgroup's part from (row, column) on: `products` accumulators of each place, one behind the other. Its
  /// threads share barrier `barrier`.
  template <int products, class Epilogue>
  __device__ __forceinline__ void finish(const float (&accumulators)[products][rows / 2], const ToTiles<Epilogue> &to,
                                         const Ahead<Epilogue> &ahead, Index batch, Index row, Index column,
                                         int barrier) const {
    const bool stores = threadIdx.x % 128 == 0;
#pragma unroll
    for (int piece = 0; piece < pieces; ++piece) {
      const unsigned buffer = staged + piece % buffers * bufferBytes;
      if constexpr (pieces > 1) {
        if (stores) {
          if (piece == 0 && pieces % buffers != 0)
            waitStores<0>(); // The last piece of the tile before had this buffer, too.
          else
            waitStores<buffers - 1>();
        }
        syncNamed(barrier, 128);
      }
      finishPiece(buffer, piece * pieceRows, accumulators, to.epilogue, ahead, batch, row, column);
      fenceForTma();
      syncNamed(barrier, 128);
      if (stores)
        storeBox(to.result, column, row + piece * pieceRows, Epilogue::resultBatch(batch), buffer);
    }
    if (pieces == 1)
      drain();
  }
  /// No buffer is in use any more.
  __device__ __forceinline__ void drain() const {
    if (threadIdx.x % 128 == 0)
      waitStores<0>();
  }

private:
  /// `pieceRows` of the rows, from `first` on.
  template <int products, class Epilogue>
  static __device__ __forceinline__ void
  finishPiece(unsigned buffer, int first, const float (&accumulators)[products][rows / 2], const Epilogue &epilogue,
              const Ahead<Epilogue> &ahead, Index batch, Index row, Index column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int eight = 0; eight < pieceRows / 8; eight += 2) {
      unsigned words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) { // An odd last group of eight is repeated.
        const int j = first / 8 + eight + (eight + 1 < pieceRows / 8 ? i / 2 : 0);
        words[i] = finished(epilogue, ahead.x[i % 2], accumulators, j * 4 + i % 2 * 2, batch,
                            row + j * 8 + lane % 4 * 2, columnOf(column, i % 2));
      }
      const int j = eight + (eight + 1 < pieceRows / 8 ? lane / 16 : 0);
      storeMatricesTransposed(lineAt(buffer, j * 8 + lane % 8, threadIdx.x / 32 % 4 * 2 + lane / 8 % 2), words[0],
                              words[1], words[2], words[3]);
    }
  }
  static __device__ __forceinline__ Index columnOf(Index first, int half) {
    return first + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + half * 8;
  }
  /// Eight columns of a row, as TMA's swizzle places them.
  static __device__ __forceinline__ unsigned lineAt(unsigned buffer, int row, int eight) {
    return buffer + row * lineBytes + (eight ^ row % 8) * 16;
  }
  /// A column's values in two neighbouring rows, rounded.
  template <int products, class Epilogue>
  static __device__ __forceinline__ unsigned finished(const Epilogue &epilogue, const typename Epilogue::Operands &x,
                                                      const float (&accumulators)[products][rows / 2], int at,
                                                      Index batch, Index m, Index n) {
    float y[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Vector<float, products> acc;
#pragma unroll
      for (int product = 0; product < products; ++product)
        acc[product] = accumulators[product][at + i];
      y[i] = epilogue.compute(x, acc, batch, m + i, n, 1)[0];
    }
    typename Epilogue::Result pair[2];
    encodePair(pair, y[0], y[1]);
    return pair[0].bits | static_cast<unsigned>(pair[1].bits) << 16;
  }
};

/// A persistent warpgroup's whole part of a swapped product's tile: `blocks` times 64 columns, or 64 of each of as many
/// products.
template <class Config, int blocks, int products> struct TransposedTiles {
  using Index = typename Config::Index;
  static constexpr int pieceRows = Config::tileColumns % 32 == 0 ? 16 : 8;
  using Store = ColumnStore<Config, pieceRows>;
  static constexpr int bytes = Store::bytes / 4;  ///< A warp's share of its warpgroup's.
  static constexpr int count = blocks / products; ///< Parts of 64 columns.
  static_assert(products == 1 || products == blocks);

  static constexpr bool bringsTiles = false;
  static constexpr int barrierBytes = 0;

  Store store;

  __device__ __forceinline__ TransposedTiles(unsigned char *staged, unsigned)
      : store{sharedAddress(staged) - threadIdx.x / 32 % 4 * bytes} {}

  /// What the epilogue reads for each block of columns.
  template <class Epilogue> struct Ahead {
    typename Store::template Ahead<Epilogue> parts[count];
  };

  /// `along` is the warp's first column of the result, `across` its row: the operands' rows and columns.
  template <class Epilogue>
  static __device__ __forceinline__ Ahead<Epilogue> load(const ToTiles<Epilogue> &to, Index batch, Index along,
                                                         Index across) {
    Ahead<Epilogue> ahead;
#pragma unroll
    for (int part = 0; part < count; ++part)
      ahead.parts[part] = Store::load(to, batch, across, firstColumn(along, part));
    return ahead;
  }
  template <class Epilogue>
  __device__ __forceinline__ void finish(const float (&accumulators)[blocks][Config::tileColumns / 2],
                                         const ToTiles<Epilogue> &to, const Ahead<Epilogue> &ahead, Index batch,
                                         Index along, Index across) const {
    constexpr int firstBarrier = 3; // Behind those of ping-pong.
    const int barrier = firstBarrier + threadIdx.x / 128;
    if constexpr (products > 1) {
      store.finish(accumulators, to, ahead.parts[0], batch, across, firstColumn(along, 0), barrier);
    } else {
#pragma unroll
      for (int part = 0; part < count; ++part)
        store.finish(reinterpret_cast<const float(&)[1][Config::tileColumns / 2]>(accumulators[part]), to,
                     ahead.parts[part], batch, across, firstColumn(along, part), barrier);
    }
  }
  __device__ __forceinline__ void drain() const { store.drain(); }

private:
  static __device__ __forceinline__ Index firstColumn(Index along, int part) {
    return along - threadIdx.x / 32 % 4 * 16 + part * 64;
  }
};

} // namespace kfuse
