// Which tiles a persistent block computes, and how blocks share the tiles that do not fill a wave: stream-K (Osama et
// al., PPoPP 2023), where whole tiles come first and the last ones are cut along K into equal pieces, whose sums meet
// in memory, always in the same order.
#pragma once

namespace kfuse {

/// The tiles that a cluster computes, in the order of their numbers: groups of `raster` along one
/// direction, walked along the other, every other group backwards, so that clusters on the device
/// together share operands in L2.
template <class Config> struct ClusterTile {
  static constexpr int height = Config::tileM * Config::clusterRows, width = Config::tileN * Config::clusterColumns;
  static constexpr int tall = (Config::rows + height - 1) / height, wide = (Config::columns + width - 1) / width;
  static constexpr int perBatch = tall * wide, count = perBatch * Config::batches;
  int batch, row, column; ///< First row and column of the cluster's tile.

  __device__ __forceinline__ explicit ClusterTile(int number) {
    constexpr int along = Config::rasterColumns ? wide : tall, across = Config::rasterColumns ? tall : wide;
    int inBatch = number % perBatch, group = inBatch / (Config::raster * across),
        inGroup = inBatch % (Config::raster * across), first = group * Config::raster;
    int size = along - first < Config::raster ? along - first : Config::raster;
    int a = first + inGroup % size, b = inGroup / size;
    if (group % 2 == 1)
      b = across - 1 - b;
    batch = number / perBatch;
    row = (Config::rasterColumns ? b : a) * height;
    column = (Config::rasterColumns ? a : b) * width;
  }
};

/// The way of a cluster: every `step`-th tile from its first on; then, of the last Config::streamed tiles put one
/// behind the other along K, one of Config::pieces equal pieces.
template <class Config> struct TileWalk {
  static constexpr int tilesK = (Config::K + Config::tileK - 1) / Config::tileK;
  static constexpr int count = ClusterTile<Config>::count, whole = count - Config::streamed;
  static constexpr int streamedLines = Config::streamed * tilesK;

  int number, step;
  int firstK = 0, endK = tilesK; ///< Lines of K of the tile that are this cluster's.

  __device__ __forceinline__ TileWalk(int number, int step)
      : number(number), step(step), pieceBegin(beginOf(number)), pieceEnd(beginOf(number + 1)) {
    enterPiece();
  }
  __device__ __forceinline__ bool isThere() const { return number < count; }
  __device__ __forceinline__ void advance() {
    number += step;
    enterPiece();
  }

  /// A tile's sums meet at the cluster that has its last line.
  __device__ __forceinline__ bool finishes() const { return endK == tilesK; }
  /// Whether cluster `other` has lines of this tile, for the clusters before this one, the nearest first.
  __device__ __forceinline__ bool sharesWith(int other) const { return beginOf(other + 1) > (number - whole) * tilesK; }

private:
  int pieceBegin, pieceEnd; ///< Lines of the streamed tiles that are still to come.

  /// streamedLines * piece / pieces, whose product may need more than 32 bits.
  static __device__ __forceinline__ int beginOf(int cluster) {
    const int piece = cluster < Config::pieces ? cluster : Config::pieces;
    return streamedLines / Config::pieces * piece + streamedLines % Config::pieces * piece / Config::pieces;
  }
  /// The last tile of the piece first: another cluster waits for it.
  __device__ __forceinline__ void enterPiece() {
    if (Config::streamed == 0 || number < whole)
      return;
    number = count;
    if (pieceBegin == pieceEnd)
      return;
    const int tile = (pieceEnd - 1) / tilesK, first = tile * tilesK;
    number = whole + tile;
    firstK = pieceBegin > first ? pieceBegin - first : 0, endK = pieceEnd - first;
    pieceEnd = first + firstK;
  }
};

} // namespace kfuse
