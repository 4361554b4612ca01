// Short rows that begin anywhere: a block's rows lie one behind the other in memory, so they move as a whole.
#pragma once

#include <kfuse/rows.cuh>

namespace kfuse {

/// A row in shared memory, found by an element's place in the tensor that it is of.
template <class T, class Index> struct HeldRow {
  T *elements;
  Index begin; ///< The first one's place.
  __device__ __forceinline__ T *operator+(Index place) const { return elements + (place - begin); }
  __device__ __forceinline__ T &operator[](Index place) const { return elements[place - begin]; }
};

/// A block's rows. Those behind the tensor's last row have a place of their own in shared memory, with anything in it,
/// so that no thread reads what another one writes.
template <class T, class Config> struct HeldRows {
  using Index = typename Config::Index;
  T *elements;
  Index begin; ///< The first one's place.
  __device__ __forceinline__ HeldRow<T, Index> of(const Row<Config> &row) const {
    return {elements + (row.first * Config::columns - begin), row.index * Config::columns};
  }
};

/// `rowsEach` rows for each of the block's Config::rows groups of threads. A row of 49 elements of 16 bits begins
/// at any even address, and threads that load it by themselves move 2 bytes at a time; so many rows that they fill
/// whole pieces of 16 bytes move in those, and single elements only between shared memory and registers.
template <class Config, int rowsEach> struct RowTile {
  using Index = typename Config::Index;
  static constexpr int rows = Config::rows * rowsEach, threads = Config::rows * Config::threads;
  static constexpr int elements = rows * static_cast<int>(Config::columns);
  static_assert(Config::threads <= 32 && Config::cluster == 1, "a row is a warp's, or a part of one's");

  Index first = Index(blockIdx.x) * rows;
  int count = static_cast<int>(minimum(Index(rows), Index(Config::rowCount) - first) * Config::columns);

  /// The rows of a tensor in shared memory, from byte `place` on.
  template <class T> __device__ __forceinline__ HeldRows<T, Config> held(int place) const {
    return {reinterpret_cast<T *>(dynamicShared() + place), first * Config::columns};
  }

  /// Starts the copies of a tensor's rows.
  template <class T> __device__ __forceinline__ void bring(const HeldRows<T, Config> &to, const T *from) const {
    forEachPiece<T>([&](int at, int present) {
      if (present == pieceOf<T>)
        copyAsync<16>(sharedAddress(to.elements + at), from + to.begin + at, 16);
      else
        moveEach(to.elements + at, from + to.begin + at, present);
    });
  }
  /// Waits for them.
  __device__ __forceinline__ void wait() const {
    commitCopies();
    waitCopies<0>();
    __syncthreads();
  }

  /// Calls `body(row)` for this thread's rows. They all take part; those behind the last row are not valid.
  template <class Body> __device__ __forceinline__ void forEachRow(const Body &body) const {
    Row<Config> row;
#pragma unroll 1
    for (int i = 0; i < rowsEach; ++i) {
      row.moveTo(first + i * Config::rows + row.number);
      body(row);
    }
  }

  /// Stores a tensor's rows, when all threads have written theirs.
  template <class T> __device__ __forceinline__ void give(T *to, const HeldRows<T, Config> &from) const {
    using Words = Vector<unsigned, 4>;
    forEachPiece<T>([&](int at, int present) {
      if (present == pieceOf<T>)
        *reinterpret_cast<Words *>(to + from.begin + at) = *reinterpret_cast<const Words *>(from.elements + at);
      else
        moveEach(to + from.begin + at, from.elements + at, present);
    });
  }

private:
  /// Elements that move together.
  template <class T> static constexpr int pieceOf = 16 / sizeof(T);

  template <class T> static __device__ __forceinline__ void moveEach(T *to, const T *from, int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i)
      to[i] = from[i];
  }

  /// This thread's pieces: where they begin in the tile, and how many of their elements are present.
  template <class T, class Body> __device__ __forceinline__ void forEachPiece(Body body) const {
    constexpr int piece = pieceOf<T>, step = threads * piece;
    static_assert(elements % piece == 0, "the next tile's first element is aligned, too");
    const int mine = static_cast<int>(threadIdx.x) * piece;
    if (count == elements) {
#pragma unroll
      for (int at = 0; at < elements; at += step)
        if (at + step <= elements || at + mine < elements)
          body(at + mine, piece);
    } else {
#pragma unroll 1
      for (int at = mine; at < count; at += step)
        body(at, minimum(piece, count - at));
    }
  }
};

} // namespace kfuse
