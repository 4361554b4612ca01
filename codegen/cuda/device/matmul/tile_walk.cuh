// Which tiles a persistent block computes. Where they do not fill a last wave, clusters may share those of it by
// stream-K (Osama et al., PPoPP 2023): contributors leave their partial sums of a segment of K in memory to the cluster
// that finishes the tile, which adds them always in the same order. Unlike there all tiles are cut at the same K
// blocks, so that blocks at work together read the same parts of what they share: cut anywhere, 4096 cubed in tiles of
// 128 x 128 took 214 us in single blocks, whole 207.
#pragma once

namespace kfuse {

/// Whether the 64-row side of the instruction lies along N.
template <class Config> constexpr bool isSwapped = false;
template <class Config>
  requires requires { Config::swapped; }
constexpr bool isSwapped<Config> = Config::swapped;

/// The tiles that a cluster computes, in the order of their numbers: groups of `tileSwizzle` along one
/// direction, walked along the other, every other group backwards, so that clusters on the device
/// together share operands in L2.
template <class Config> struct ClusterTile {
  static constexpr int blockHeight = isSwapped<Config> ? Config::tileN : Config::tileM,
                       blockWidth = isSwapped<Config> ? Config::tileM : Config::tileN;
  static constexpr int height = blockHeight * Config::clusterRows, width = blockWidth * Config::clusterColumns;
  static constexpr int tall = (Config::rows + height - 1) / height, wide = (Config::columns + width - 1) / width;
  static constexpr int perBatch = tall * wide, count = perBatch * Config::batches;
  int batch, row, column; ///< First row and column of the cluster's tile.

  /// Number `number` where a run computes the first `tall` rows of tiles alone.
  __device__ __forceinline__ explicit ClusterTile(int number, int tall = ClusterTile::tall) {
    const int along = Config::tileSwizzleColumns ? wide : tall, across = Config::tileSwizzleColumns ? tall : wide,
              perBatch = tall * wide;
    int inBatch = number % perBatch, group = inBatch / (Config::tileSwizzle * across),
        inGroup = inBatch % (Config::tileSwizzle * across), first = group * Config::tileSwizzle;
    int size = along - first < Config::tileSwizzle ? along - first : Config::tileSwizzle;
    int a = first + inGroup % size, b = inGroup / size;
    if (group % 2 == 1)
      b = across - 1 - b;
    batch = number / perBatch;
    row = (Config::tileSwizzleColumns ? b : a) * height;
    column = (Config::tileSwizzleColumns ? a : b) * width;
  }
};

/// The walk of a cluster: every `step`-th tile from its first on. The first K blocks of the Config::streamKTiles tiles
/// of a last wave that is not full are left to Config::contributors clusters that have none of these tiles:
/// Config::segments segments of Config::segmentBlocks each. A contributor computes its segments before its own last
/// tile, so that they are there when the others begin with them. Contributors are the first clusters: who waits, waits
/// for those that started before.
template <class Config> struct TileWalk {
  static constexpr int tilesK = (Config::K + Config::tileK - 1) / Config::tileK;
  static constexpr int count = ClusterTile<Config>::count, whole = count - Config::streamKTiles;
  static constexpr int contributedBlocks =
      Config::segments * Config::segmentBlocks; ///< K blocks of each tile that contributors have.
  static constexpr int allSegments = Config::streamKTiles * Config::segments;
  static constexpr int segmentsEach = Config::streamKTiles > 0
                                          ? (allSegments + Config::contributors - 1) / Config::contributors
                                          : 0;

  static_assert(Config::streamKTiles == 0 || (Config::segmentBlocks > 0 && whole > 0),
                "contributors have a tile of their own");

  int number, step, end;         ///< `end` tiles are there in a run; with streamKTiles all.
  int firstK = 0, endK = tilesK; ///< K blocks of the tile that are this cluster's.

  __device__ __forceinline__ TileWalk(int cluster, int step, int end = count)
      : number(cluster), step(step), end(end), next(cluster) {
    if (Config::streamKTiles == 0)
      return;
    if (cluster < Config::contributors) {
      const int first = cluster * segmentsEach;
      segmentsLeft = first + segmentsEach < allSegments ? segmentsEach : allSegments - first;
      contributed = whole + first / Config::segments, segment = first % Config::segments;
    }
    enter();
  }
  __device__ __forceinline__ bool isThere() const { return number < end; }
  __device__ __forceinline__ void advance() {
    if (Config::streamKTiles == 0) {
      number += step;
      return;
    }
    if (finishes())
      next += step;
    else if (--segmentsLeft; ++segment == Config::segments)
      ++contributed, segment = 0;
    enter();
  }

  /// K blocks of this tile that are the cluster's.
  __device__ __forceinline__ int depth() const { return Config::streamKTiles == 0 ? tilesK : endK - firstK; }
  /// Whether another tile of the cluster follows.
  __device__ __forceinline__ bool hasNext() const {
    TileWalk following = *this;
    following.advance();
    return following.isThere();
  }

  /// The cluster that has a tile's last K block finishes it.
  __device__ __forceinline__ bool finishes() const { return endK == tilesK; }
  /// Whether contributors have the first K blocks of a tile that this cluster finishes: segments from firstSegment()
  /// on.
  __device__ __forceinline__ bool hasContributors() const {
    return Config::streamKTiles > 0 && firstK == contributedBlocks && finishes();
  }
  /// The number among all segments of this one, or of the first one of a tile that has contributors.
  __device__ __forceinline__ int firstSegment() const {
    return (number - whole) * Config::segments + (finishes() ? 0 : segment);
  }

private:
  int next;                         ///< The cluster's next tile, counted on by `step` from its first one.
  int segmentsLeft = 0;             ///< Segments of a contributor that are still to come.
  int contributed = 0, segment = 0; ///< The tile of the next one, and which of its segments that is.

  __device__ __forceinline__ void enter() {
    if (segmentsLeft > 0 && next + step >= whole) {
      number = contributed, firstK = segment * Config::segmentBlocks, endK = firstK + Config::segmentBlocks;
      return;
    }
    number = next, firstK = 0, endK = tilesK;
    if (next < whole)
      return;
    number = next < whole + Config::contributors ? count : next - Config::contributors;
    firstK = contributedBlocks;
  }
};

} // namespace kfuse
