// Which tiles a persistent block computes. Where they do not fill a last wave, blocks may share those of the last wave:
// as in stream-K (Osama et al., PPoPP 2023) some leave their sums of a part of K in memory to those that finish the
// tile, always in the same order. Unlike there all tiles are cut at the same lines of K, so that blocks at work
// together read the same lines of what they share: cut anywhere, 4096 cubed in tiles of 128 x 128 took 214 us in single
// blocks, whole 207.
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

/// The way of a cluster: every `step`-th tile from its first on. Of the Config::streamed tiles of a last wave that is
/// not full, the first lines of K are left to Config::helpers clusters that have none: Config::pieces pieces of
/// Config::pieceLines each. A helper computes its pieces before its own last tile, so that they are there
/// when the others begin with them. Helpers are the first clusters: who waits, waits for those that started
/// before.
template <class Config> struct TileWalk {
  static constexpr int tilesK = (Config::K + Config::tileK - 1) / Config::tileK;
  static constexpr int count = ClusterTile<Config>::count, whole = count - Config::streamed;
  static constexpr int lentLines = Config::pieces * Config::pieceLines; ///< Of each tile.
  static constexpr int allPieces = Config::streamed * Config::pieces;
  static constexpr int piecesEach = Config::streamed > 0 ? (allPieces + Config::helpers - 1) / Config::helpers : 0;

  static_assert(Config::streamed == 0 || (Config::pieceLines > 0 && whole > 0), "helpers have a tile of their own");

  int number, step;
  int firstK = 0, endK = tilesK; ///< Lines of K of the tile that are this cluster's.

  __device__ __forceinline__ TileWalk(int cluster, int step) : number(cluster), step(step), next(cluster) {
    if (Config::streamed == 0)
      return;
    if (cluster < Config::helpers) {
      const int first = cluster * piecesEach;
      piecesLeft = first + piecesEach < allPieces ? piecesEach : allPieces - first;
      helped = whole + first / Config::pieces, piece = first % Config::pieces;
    }
    enter();
  }
  __device__ __forceinline__ bool isThere() const { return number < count; }
  __device__ __forceinline__ void advance() {
    if (Config::streamed == 0) {
      number += step;
      return;
    }
    if (finishes())
      next += step;
    else if (--piecesLeft; ++piece == Config::pieces)
      ++helped, piece = 0;
    enter();
  }

  /// Lines of K of this tile that are the cluster's.
  __device__ __forceinline__ int depth() const { return Config::streamed == 0 ? tilesK : endK - firstK; }
  /// Whether another tile of the cluster follows.
  __device__ __forceinline__ bool hasNext() const {
    TileWalk following = *this;
    following.advance();
    return following.isThere();
  }

  /// A tile's sums meet at the cluster that has its last line.
  __device__ __forceinline__ bool finishes() const { return endK == tilesK; }
  /// Whether other clusters have the first lines of a tile that this one finishes: pieces `firstPiece` and on of all.
  __device__ __forceinline__ bool isHelped() const { return Config::streamed > 0 && firstK == lentLines && finishes(); }
  /// Of all pieces, the one that this is, or the first one of a tile that others help with.
  __device__ __forceinline__ int firstPiece() const {
    return (number - whole) * Config::pieces + (finishes() ? 0 : piece);
  }

private:
  int next;                  ///< The cluster's next tile, counted on by `step` from its first one.
  int piecesLeft = 0;        ///< Of a helper's, that are still to come: ...
  int helped = 0, piece = 0; ///< ... the tile of the next one, and which of its pieces that is.

  __device__ __forceinline__ void enter() {
    if (piecesLeft > 0 && next + step >= whole) {
      number = helped, firstK = piece * Config::pieceLines, endK = firstK + Config::pieceLines;
      return;
    }
    number = next, firstK = 0, endK = tilesK;
    if (next < whole)
      return;
    number = next < whole + Config::helpers ? count : next - Config::helpers;
    firstK = lentLines;
  }
};

} // namespace kfuse
