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
  /// Tiles along M and along N, and how far one reaches along M.
  static constexpr int alongM = isSwapped<Config> ? wide : tall, alongN = isSwapped<Config> ? tall : wide,
                       extentM = isSwapped<Config> ? width : height;
  static constexpr int count = tall * wide * Config::batches;
  int batch, row, column; ///< First row and column of the cluster's tile.

  /// Number `number` where a run computes the first `ofRun` tiles along M alone.
  __device__ __forceinline__ explicit ClusterTile(int number, int ofRun = alongM) {
    const int tall = isSwapped<Config> ? ClusterTile::tall : ofRun, wide = isSwapped<Config> ? ofRun : ClusterTile::wide;
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

/// K blocks of a product.
template <class Config> constexpr int tilesKOf = (Config::K + Config::tileK - 1) / Config::tileK;

/// How the tiles of a last wave that is not full are shared: `contributors` clusters, which have none of these `tiles`,
/// compute `segments` segments of `segmentBlocks` K blocks of each.
template <class Config> struct Shares {
  static constexpr int tiles = Config::streamKTiles, contributors = Config::contributors, segments = Config::segments,
                       segmentBlocks = Config::segmentBlocks;
  static_assert(tiles == 0 || (segmentBlocks > 0 && ClusterTile<Config>::count > tiles),
                "contributors have a tile of their own");
  __device__ __forceinline__ Shares(int, int) {}
};
/// The same of a run's tiles, by the rule of sm90::gridOf() (codegen/cuda/matmul/Sm90Tiles.h).
template <class Config>
  requires requires { Config::mostSegments; }
struct Shares<Config> {
  int tiles = 0, contributors = 0, segments = 1, segmentBlocks = 0;

  __device__ __forceinline__ Shares(int count, int clusters) {
    const int left = count % clusters;
    if (left == 0 || left == count)
      return;
    contributors = clusters - left;
    const int most = contributors > left ? contributors / left : 1; // A segment has a contributor of its own.
    segments = most < Config::mostSegments ? most : Config::mostSegments;
    const int each = (left * segments + contributors - 1) / contributors;
    segmentBlocks = (tilesKOf<Config> - Config::segmentCost * each) / (segments + each);
    tiles = segmentBlocks >= Config::leastBlocks ? left : 0;
  }
};

/// The walk of a cluster: every `step`-th tile from its first on. The first K blocks of the tiles of a last wave that
/// is not full are left to the contributors (Shares). A contributor computes its segments before its own last tile, so
/// that they are there when the others begin with them. Contributors are the first clusters: who waits, waits for those
/// that started before.
template <class Config> struct TileWalk {
  static constexpr int tilesK = tilesKOf<Config>;

  int number, step, end; ///< `end` tiles are there in a run.
  Shares<Config> shares;
  int firstK = 0, endK = tilesK; ///< K blocks of the tile that are this cluster's.

  __device__ __forceinline__ TileWalk(int cluster, int step, int end = ClusterTile<Config>::count)
      : number(cluster), step(step), end(end), shares(end, step), next(cluster) {
    if (Config::streamKTiles == 0)
      return;
    if (shares.tiles > 0 && cluster < shares.contributors) {
      const int all = shares.tiles * shares.segments, each = (all + shares.contributors - 1) / shares.contributors,
                first = cluster * each;
      segmentsLeft = first + each < all ? each : all - first;
      contributed = whole() + first / shares.segments, segment = first % shares.segments;
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
    else if (--segmentsLeft; ++segment == shares.segments)
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
    return Config::streamKTiles > 0 && firstK > 0 && finishes();
  }
  /// The number among all segments of this one, or of the first one of a tile that has contributors.
  __device__ __forceinline__ int firstSegment() const {
    return (number - whole()) * shares.segments + (finishes() ? 0 : segment);
  }

private:
  int next;                         ///< The cluster's next tile, counted on by `step` from its first one.
  int segmentsLeft = 0;             ///< Segments of a contributor that are still to come.
  int contributed = 0, segment = 0; ///< The tile of the next one, and which of its segments that is.

  /// Tiles that nobody shares.
  __device__ __forceinline__ int whole() const { return end - shares.tiles; }

  __device__ __forceinline__ void enter() {
    if (segmentsLeft > 0 && next + step >= whole()) {
      number = contributed, firstK = segment * shares.segmentBlocks, endK = firstK + shares.segmentBlocks;
      return;
    }
    number = next, firstK = 0, endK = tilesK;
    if (next < whole() || shares.tiles == 0)
      return;
    number = next < whole() + shares.contributors ? end : next - shares.contributors;
    firstK = shares.segments * shares.segmentBlocks;
  }
};

} // namespace kfuse
