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

/// How many bounds an operand's positions have; -1 of one that is no window, whose neighbours lie as `vector` says.
template <class Operand, class = void> struct BoundsOf {
  static constexpr int count = -1;
};
template <class Operand> struct BoundsOf<Operand, decltype(void(Operand::bounds))> {
  static constexpr int count = Operand::bounds;
};

/// Copies tiles of one operand, `tile` of its `extent` rows or columns by Config::tileK, along K.
///
/// An Operand says where element (i, k) of a batch lies, at outer(batch, i) + inner(batch, k), whether
/// neighbours in memory differ in k, and how many elements an aligned access may hold there. Elements of 8 bits
/// (`Stored`) become f16 on the way. In an operand of windows each such access has a place of its own, and is 0 where
/// one of its bounds, outerOf(...) + innerOf(...), is not kept.
template <class Config, class Operand, class Stored, int tile, int extent> struct TileCopy {
  using T = typename Config::Element;
  using Index = typename Config::Index;
  static constexpr int rows = Operand::contiguousK ? tile : Config::tileK;
  static constexpr int columns = Operand::contiguousK ? Config::tileK : tile;
  static constexpr int perChunk = 16 / sizeof(T), vector = Operand::vector < perChunk ? Operand::vector : perChunk;
  static_assert(sizeof(T) == 2 || Operand::contiguousK, "only 16-bit elements are transposed as ldmatrix loads them");
  using Tile = SharedTile<rows, columns * sizeof(T) / 2>;
  static constexpr int total = rows * Tile::chunks, count = (total + Config::threads - 1) / Config::threads;
  static constexpr int rowStep = Config::threads / Tile::chunks;
  static_assert(Config::threads % Tile::chunks == 0, "a thread's chunks lie below each other");
  static constexpr int bounds = BoundsOf<Operand>::count;
  static constexpr bool isWindowed = bounds >= 0;
  static_assert(bounds <= 0 || Operand::contiguousK, "bounds are checked along K");

  const Stored *global;
  Index batch, first; ///< First row or column of the tile.
  int row = threadIdx.x / Tile::chunks, chunk = threadIdx.x % Tile::chunks;
  Index outer[Operand::contiguousK ? count : 1];
  Index outerOfBounds[bounds > 0 ? count : 1][bounds > 0 ? bounds : 1];

  __device__ __forceinline__ TileCopy(const Stored *global, Index batch, Index first)
      : global(global), batch(batch), first(first) {
    if constexpr (Operand::contiguousK) {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        outer[i] = Operand::outer(batch, first + row + i * rowStep);
        if constexpr (bounds > 0) {
#pragma unroll
          for (int bound = 0; bound < bounds; ++bound)
            outerOfBounds[i][bound] = Operand::outerOf(bound, batch, first + row + i * rowStep);
        }
      }
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
        copyChunk(chunkAt, i, k + chunk * perChunk, remaining<extent, tile>(first + y) > 0 ? inK : 0);
      } else {
        int across = remaining<extent, tile>(first + chunk * perChunk);
        copyChunk(chunkAt, 0, k + y, remaining<Config::K, Config::tileK>(k + y) > 0 ? across : 0);
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

  /// Whether the element at `k` of the thread's row `i` is within its bounds.
  __device__ __forceinline__ bool isInside(int i, Index k) const {
    bool inside = true;
    if constexpr (bounds > 0) {
#pragma unroll
      for (int bound = 0; bound < bounds; ++bound)
        inside &= Operand::isInside(bound, batch, outerOfBounds[i][bound] + Operand::innerOf(bound, batch, k));
    }
    return inside;
  }

  /// A chunk of row `i`.
  __device__ __forceinline__ void copyChunk(unsigned to, int i, Index k, int elements) const {
    const Stored *from = global + (outer[i] + Operand::inner(batch, k));
    if constexpr (sizeof(Stored) < sizeof(T)) {
      copyWidened(to, outer[i], k, elements);
    } else if constexpr (vector * sizeof(T) >= 4) {
      constexpr int width = sizeof(T);
#pragma unroll
      for (int j = 0; j < perChunk; j += vector) {
        int bytes = (elements - j < vector ? elements - j : vector) * width;
        if constexpr (isWindowed && Operand::contiguousK) {
          const Stored *piece = global + (outer[i] + Operand::inner(batch, k + j));
          copyAsync<vector * width>(to + j * width, piece, bytes > 0 && isInside(i, k + j) ? bytes : 0);
        } else {
          copyAsync<vector * width>(to + j * width, from + j, bytes > 0 ? bytes : 0);
        }
      }
    } else {
      copyElements(to, i, k, elements);
    }
  }

  /// No two neighbours in memory: through registers, as cp.async moves 4 bytes at least.
  __device__ __forceinline__ void copyElements(unsigned to, int i, Index k, int elements) const {
    Vector<T, perChunk> values{};
#pragma unroll
    for (int j = 0; j < perChunk; ++j)
      if (j < elements && (bounds <= 0 || isInside(i, k + j)))
        values[j] = element(outer[i], k, j);
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
