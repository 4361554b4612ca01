// Tiles of 16- or 32-bit operands in shared memory, and the asynchronous copies that fill them.
#pragma once

#include <kfuse/types.cuh>

namespace kfuse {

/// `rows` x `columns` 16-bit elements (of 32 bits, half as many) in chunks of 16 bytes. A row's chunks are permuted by
/// an XOR with its number, so that eight chunks below each other, which ldmatrix reads at once, lie in different banks.
template <int rows, int columns> struct SharedTile {
  static constexpr int chunks = columns / 8, rowBytes = columns * 2, bytes = rows * rowBytes;
  static_assert((columns & (columns - 1)) == 0 && columns >= 16, "the XOR needs a power of two");

  /// Byte offset of a chunk. Rows of under 128 bytes share a set of banks with their neighbours.
  static __device__ __forceinline__ unsigned offset(int row, int chunk) {
    constexpr int mask = chunks < 8 ? chunks - 1 : 7, rowsOfBanks = chunks < 8 ? 8 / chunks : 1;
    return row * rowBytes + ((chunk ^ (row / rowsOfBanks & mask)) * 16);
  }
  /// From a chunk's offset to that of the one `moreRows` (a multiple of 8) below and `moreChunks` to
  /// the right, none of whose bits the first chunk's number has.
  static __device__ __forceinline__ unsigned moved(unsigned offset, int moreRows, int moreChunks) {
    return (offset ^ (moreChunks * 16)) + moreRows * rowBytes;
  }
};

/// Copies tiles of one operand, `tile` of its `extent` rows or columns by Config::tileK, along K.
///
/// An Operand says where element (i, k) of a batch lies, at outer(batch, i) + inner(batch, k), whether
/// neighbours in memory differ in k, and how many elements an aligned access may hold there. Elements of 8 bits
/// (`Stored`) become f16 on the way.
template <class Config, class Operand, class Stored, int tile, int extent> struct TileCopy {
  using T = typename Config::Element;
  using Index = typename Config::Index;
  static constexpr int rows = Operand::contiguousK ? tile : Config::tileK;
  static constexpr int columns = Operand::contiguousK ? Config::tileK : tile;
  static constexpr int perChunk = 16 / sizeof(T), vector = Operand::vector < perChunk ? Operand::vector : perChunk;
  static_assert(sizeof(T) == 2 || Operand::contiguousK, "only 16-bit elements turn as ldmatrix loads them");
  using Tile = SharedTile<rows, columns * sizeof(T) / 2>;
  static constexpr int total = rows * Tile::chunks, count = (total + Config::threads - 1) / Config::threads;
  static constexpr int rowStep = Config::threads / Tile::chunks;
  static_assert(Config::threads % Tile::chunks == 0, "a thread's chunks lie below each other");

  const Stored *global;
  Index batch, first; ///< First row or column of the tile.
  int row = threadIdx.x / Tile::chunks, chunk = threadIdx.x % Tile::chunks;
  Index outer[Operand::contiguousK ? count : 1];

  __device__ __forceinline__ TileCopy(const Stored *global, Index batch, Index first)
      : global(global), batch(batch), first(first) {
    if constexpr (Operand::contiguousK) {
#pragma unroll
      for (int i = 0; i < count; ++i)
        outer[i] = Operand::outer(batch, first + row + i * rowStep);
    } else {
      outer[0] = Operand::outer(batch, first + chunk * perChunk);
    }
  }

  /// Starts the copy of the tile at `k` to shared address `to`.
  __device__ __forceinline__ void start(unsigned to, Index k) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      int y = row + i * rowStep;
      if (total % Config::threads != 0 && y >= rows)
        break;
      unsigned chunkAt =
          to + (rowStep % 8 == 0 ? Tile::moved(Tile::offset(row, chunk), i * rowStep, 0) : Tile::offset(y, chunk));
      if constexpr (Operand::contiguousK) {
        int inK = remaining<Config::K, Config::tileK>(k + chunk * perChunk);
        copyChunk(chunkAt, outer[i], k + chunk * perChunk, remaining<extent, tile>(first + y) > 0 ? inK : 0);
      } else {
        int across = remaining<extent, tile>(first + chunk * perChunk);
        copyChunk(chunkAt, outer[0], k + y, remaining<Config::K, Config::tileK>(k + y) > 0 ? across : 0);
      }
    }
  }

private:
  /// Elements of a chunk from `position` on that exist.
  template <int size, int step> static __device__ __forceinline__ int remaining(Index position) {
    if constexpr (size % step == 0)
      return perChunk;
    else
      return position >= size ? 0 : size - position < perChunk ? static_cast<int>(size - position) : perChunk;
  }

  __device__ __forceinline__ void copyChunk(unsigned to, Index outerOffset, Index k, int elements) const {
    const Stored *from = global + (outerOffset + Operand::inner(batch, k));
    if constexpr (sizeof(Stored) < sizeof(T)) {
      copyWidened(to, outerOffset, k, elements);
    } else if constexpr (vector * sizeof(T) >= 4) {
      constexpr int width = sizeof(T);
#pragma unroll
      for (int i = 0; i < perChunk; i += vector) {
        int bytes = (elements - i < vector ? elements - i : vector) * width;
        copyAsync<vector * width>(to + i * width, from + i, bytes > 0 ? bytes : 0);
      }
    } else {
      copyElements(to, outerOffset, k, elements);
    }
  }

  /// No two neighbours in memory: through registers, as cp.async moves 4 bytes at least.
  __device__ __forceinline__ void copyElements(unsigned to, Index outerOffset, Index k, int elements) const {
    Vector<T, perChunk> values{};
#pragma unroll
    for (int i = 0; i < perChunk; ++i)
      if (i < elements)
        values[i] = element(outerOffset, k, i);
    store(to, values);
  }

  /// 8-bit floats become f16 in registers: cp.async only moves bytes.
  __device__ __forceinline__ void copyWidened(unsigned to, Index outerOffset, Index k, int elements) const {
    Vector<Stored, 8> stored{};
    if constexpr (vector > 1) {
      stored = loadVector<8, vector>(global + (outerOffset + Operand::inner(batch, k)), elements);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (i < elements)
          stored[i] = element(outerOffset, k, i);
    }
    Vector<unsigned, 4> words;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = widened(Stored{}, stored[2 * i].bits | stored[2 * i + 1].bits << 8);
    store(to, words);
  }

  /// Element i of the chunk at `k`, none of which are neighbours in memory.
  __device__ __forceinline__ Stored element(Index outerOffset, Index k, int i) const {
    return Operand::contiguousK
               ? global[outerOffset + Operand::inner(batch, k + i)]
               : global[Operand::outer(batch, first + chunk * perChunk + i) + Operand::inner(batch, k)];
  }

  template <class Values> static __device__ __forceinline__ void store(unsigned to, const Values &values) {
    *reinterpret_cast<Values *>(dynamicShared() + (to - sharedAddress(dynamicShared()))) = values;
  }
};

} // namespace kfuse
