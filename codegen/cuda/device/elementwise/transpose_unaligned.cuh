// A transposition of rows that begin anywhere, through whole chunks of 16 bytes both ways.
#pragma once

#include <kfuse/transpose.cuh>

namespace kfuse {

/// Rows of the source come to shared memory in the chunks of 16 bytes that hold them, rows of the result leave in the
/// chunks that they lie in. How far into its chunk a row begins repeats every `vector` rows, the elements of a chunk.
/// So with tiles and lanes at multiples of `vector` rows and columns each shift is known when the kernel is compiled: a
/// lane makes a chunk of each of `vector` rows of the result from the 2 * `vector` - 1 rows of the source that they
/// reach over, by bytes of registers at known places. As the issue of instructions and the L2 see it, it is a copy with
/// a few more sectors, where single elements take three sectors for two and half a line each access.
template <class Config, class Body> struct UnalignedTranspose {
  using Index = typename Config::Index;
  using Element = typename Body::Element;
  static constexpr int vector = 16 / sizeof(Element), lanesAcross = Config::lanesAcross;
  using Chunk = Vector<Element, vector>;
  using Words = Vector<unsigned, 4>; ///< A chunk as it is moved: the compiler would load its elements one by one.
  static constexpr int perWord = 4 / sizeof(Element);
  static constexpr int threads = 32 * Config::warps;
  static constexpr int pointsAcross = lanesAcross * vector, pointsDown = Config::chunksDown * vector;

  /// Chunks of the result belong to the tile that they end in, but begin up to `vector` - 1 points before it.
  struct Reached {
    using Index = typename Config::Index;
    static constexpr Index extentDown = Config::extentDown, extentAcross = Config::extentAcross + vector - 1;
    static constexpr bool downFirst = false;
  };
  TransposeTile<Reached, pointsDown, pointsAcross> tile;

  // In shared memory: rows of the source from `vector` before the tile on. They lie in one chunk more than as many
  // elements fill.
  static constexpr int rows = pointsAcross + vector, chunks = Config::chunksDown + 1;
  // Every eight lanes that bring a row have one line of 128 bytes, of as many as it may lie in.
  static constexpr int lineChunks = 8, lanesOfRow = (chunks + 2 * lineChunks - 2) / lineChunks * lineChunks;
  // Config::inLines: a row has room for all these lines, and chunks keep their places in them, or `cp.async` asks for a
  // line in two pieces. 8191 x 16383 in bf16 takes 3.5 million requests for 9.6 million sectors, 139.6 us, with tiles
  // of 192 down by 128; without inLines 7.2 for 13.7, 143.3 us, with 120 by 256. Lanes read `vector` rows apart: where
  // rows are an odd number of elements apart their banks differ by themselves. Without inLines rows lie close, and a
  // chunk is left free behind so many of them to that end.
  static constexpr int turnRows = threads / lanesOfRow; ///< Rows that all threads bring together.
  static_assert(turnRows > 0, "a row's chunks are brought by one thread each");
  static __device__ __forceinline__ Words *held() { return reinterpret_cast<Words *>(dynamicShared()); }
  /// Where the first chunk of a row is held: without lines, and with them, of the row `row` behind a lane's first.
  static __device__ __forceinline__ constexpr int packedPlace(int row) { return row * chunks + row / vector; }
  __device__ __forceinline__ int placeInLines(int lane, int row) const {
    constexpr auto pitch = static_cast<unsigned>(Config::sourcePitch);
    const unsigned across = static_cast<unsigned>(tile.across) / vector - 1 + lane;
    const unsigned first = across * pitch + static_cast<unsigned>(tile.down) / vector + row * pitch / vector;
    return (lane * vector + row) * lanesOfRow + static_cast<int>(first % lineChunks);
  }

  const Body &body;

  /// Whether all that the tile touches exists, but for rows of the result.
  __device__ __forceinline__ bool isInner() const {
    return tile.across >= vector && tile.across + pointsAcross < Config::extentAcross;
  }
  template <bool isInner> __device__ __forceinline__ void run() const {
    bring<isInner>();
    __syncthreads();
    give<isInner>();
  }

  /// How far into its chunk a row begins, of the source `row` rows behind a multiple of `vector`, or of the result.
  static __device__ __forceinline__ constexpr int sourceShift(int row) {
    return static_cast<int>(row * (Config::sourcePitch % vector) % vector);
  }
  static __device__ __forceinline__ constexpr int resultShift(int row) {
    return static_cast<int>(row * (Config::resultPitch % vector) % vector);
  }

  /// Starts the copies of what the tile reads, and waits for this thread's.
  template <bool isInner> __device__ __forceinline__ void bring() const {
    const int place = threadIdx.x % lanesOfRow;
#pragma unroll(isInner ? rows : 1)
    for (int turn = 0; turn < rows; turn += turnRows) {
      const int row = turn + static_cast<int>(threadIdx.x) / lanesOfRow;
      const Index across = tile.across - vector + row, begin = across * Config::sourcePitch + tile.down;
      const Index first = begin & ~Index(vector - 1), line = begin & ~Index(lineChunks * vector - 1);
      const Index at = line + place * vector; // Where this thread's chunk lies.
      const int chunk = static_cast<int>(at - first) / vector;
      const bool exists = isInner || (across >= 0 && across < Config::extentAcross);
      if (row - turn >= turnRows || row >= rows || !exists || at < first || chunk >= chunks ||
          at - begin >= Config::extentDown - tile.down)
        continue;
      Words *to = held() + (Config::inLines ? row * lanesOfRow + place : packedPlace(row) + chunk);
      const Element *from = body.source(tile.batch) + at;
      const auto left = body.sourceEnd() - from;
      if (isInner || left >= vector)
        copyAsync<16>(sharedAddress(to), from, 16);
      else // The last row ends within a chunk.
        *to = __builtin_bit_cast(Words, loadVector<vector, vector, true>(from, static_cast<int>(left)));
    }
    commitCopies();
    waitCopies<0>();
  }

  /// Stores the tile's part of the result.
  template <bool isInner> __device__ __forceinline__ void give() const {
    constexpr int columns = 32 / lanesAcross * Config::warps, chunksEach = Config::chunksDown / columns;
    static_assert(Config::chunksDown % columns == 0);
    const int lane = threadIdx.x % lanesAcross, column = threadIdx.x / lanesAcross * chunksEach;
    const Words *mine = held() + (Config::inLines ? 0 : packedPlace(lane * vector)) + column;
    auto chunkAt = [&](int row, int chunk) {
      return mine[(Config::inLines ? placeInLines(lane, row) : packedPlace(row)) + chunk];
    };
    constexpr int reach = 2 * vector - 1; // Rows, from the one behind the lane's first on.
    Words window[reach][2];
#pragma unroll
    for (int row = 0; row < reach; ++row)
      window[row][1] = chunkAt(row + 1, 0);
#pragma unroll
    for (int chunk = 0; chunk < chunksEach; ++chunk) {
#pragma unroll
      for (int row = 0; row < reach; ++row)
        window[row][0] = window[row][1], window[row][1] = chunkAt(row + 1, chunk + 1);
#pragma unroll
      for (int i = 0; i < vector; ++i) {
        Words transposed;
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          const int row = vector - 1 - resultShift(i) + word * perWord, place = sourceShift(row + 1) + i;
          transposed[word] = wordAt(window[row], place);
          if constexpr (perWord == 2) {
            const int next = sourceShift(row + 2) + i;
            transposed[word] = halves(transposed[word], place % 2, wordAt(window[row + 1], next), next % 2);
          }
        }
        const Index down = tile.down + (column + chunk) * vector + i;
        const Index across = tile.across + lane * vector - resultShift(i);
        if (down < Config::extentDown)
          put<isInner>(__builtin_bit_cast(Chunk, transposed), down, across);
      }
    }
  }

  /// The word with element `place` of two chunks.
  static __device__ __forceinline__ unsigned wordAt(const Words (&chunks)[2], int place) {
    return chunks[place / vector][place % vector / perWord];
  }

  template <bool isInner> __device__ __forceinline__ void put(const Chunk &transposed, Index down, Index across) const {
    if constexpr (isInner) {
      body.store(transposed, tile.batch, down, across, 0, vector);
    } else {
      const Index begin = maximum(-across, Index(0)), end = minimum(Config::extentAcross - across, Index(vector));
      body.store(transposed, tile.batch, down, across, static_cast<int>(begin), static_cast<int>(end));
    }
  }
};

/// Rounds the values from `begin` to `end` to the stored type and writes them to `to`, which is aligned.
template <class T, class V, int size>
__device__ __forceinline__ void storePart(T *to, const Vector<V, size> &values, int begin, int end) {
  if (begin == 0 && end == size)
    return storeVector<size, size>(to, values);
#pragma unroll
  for (int i = 0; i < size; ++i)
    if (i >= begin && i < end)
      encode(to[i], values[i]);
}

template <class Config, class Body> __device__ __forceinline__ void transposeUnaligned(const Body &body) {
  const UnalignedTranspose<Config, Body> transpose{{}, body};
  if (transpose.isInner())
    transpose.template run<true>();
  else
    transpose.template run<false>();
}

} // namespace kfuse
