// The way of persistent clusters through tiles, as the device library computes it.
#define __device__
#define __forceinline__ inline
#include "codegen/cuda/device/matmul/tile_walk.cuh"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace {

/// Clusters of two tiles of 128 x 256 side by side.
template <int Rows, int Columns, int Depth, int StreamKTiles, int Contributors, int Segments, int SegmentBlocks>
struct Config {
  static constexpr int tileM = 128, tileN = 256, tileK = 64, rows = Rows, columns = Columns, K = Depth, batches = 2;
  static constexpr int clusterRows = 1, clusterColumns = 2, tileSwizzle = 4;
  static constexpr bool tileSwizzleColumns = true;
  static constexpr int streamKTiles = StreamKTiles, contributors = Contributors, segments = Segments,
                       segmentBlocks = SegmentBlocks;
};

/// Walks all clusters: every line of every tile is somebody's, once; every segment has a place of its own, which
/// whoever finishes the tile knows; contributors wait for nobody and come first.
template <class Config> void check(int clusters, int tiles = kfuse::ClusterTile<Config>::count) {
  using Walk = kfuse::TileWalk<Config>;
  const kfuse::Shares<Config> shares(tiles, clusters);
  std::vector<int> owners(tiles * Walk::tilesK); // How many clusters have each line.
  std::map<int, int> segments;                   // Place -> tile of which sums are left there.
  for (int cluster = 0; cluster < clusters; ++cluster) {
    bool helps = false, waits = false;
    Walk walk(cluster, clusters, tiles);
    for (bool isPromised = walk.isThere(); walk.isThere() || isPromised; walk.advance()) {
      REQUIRE(walk.isThere() == isPromised); // Else a warpgroup waits for its turn, and nobody gives it.
      isPromised = walk.hasNext();
      REQUIRE(walk.number >= 0);
      REQUIRE(walk.depth() > 0);
      REQUIRE(walk.firstK + walk.depth() <= Walk::tilesK);
      for (int k = walk.firstK; k < walk.firstK + walk.depth(); ++k)
        ++owners[walk.number * Walk::tilesK + k];
      if (!walk.finishes()) {
        CHECK(segments.emplace(walk.firstSegment(), walk.number).second);
        CHECK(isPromised); // A tile of its own hides how its sums travel.
      }
      helps |= !walk.finishes(), waits |= walk.hasContributors();
    }
    CHECK_FALSE((helps && waits)); // Else clusters might wait for each other.
    CHECK((!waits || cluster >= shares.contributors));
    CHECK((!helps || cluster < shares.contributors));
  }
  CHECK(std::all_of(owners.begin(), owners.end(), [](int count) { return count == 1; }));
  std::size_t taken = 0;
  for (int cluster = 0; cluster < clusters; ++cluster)
    for (Walk walk(cluster, clusters, tiles); walk.isThere(); walk.advance())
      if (walk.hasContributors())
        for (int segment = 0; segment < shares.segments; ++segment, ++taken) {
          REQUIRE(segments.count(walk.firstSegment() + segment) == 1);
          CHECK(segments[walk.firstSegment() + segment] == walk.number);
        }
  CHECK(taken == segments.size());
  CHECK(taken == static_cast<std::size_t>(shares.tiles * shares.segments));
  CHECK((segments.empty() || segments.rbegin()->first < clusters)); // sm90::gridOf() gives so many places.
}

/// The same where a run's rows decide how many tiles there are.
struct RunConfig : Config<1000, 2000, 1000, 1, 0, 1, 0> {
  static constexpr int mostSegments = 7, segmentCost = 1, leastBlocks = 2;
};

} // namespace

// 64 tiles of clusters; 16 K blocks.
TEST_CASE("TileWalk: every K block of every tile is one cluster's") {
  check<Config<1000, 2000, 1000, 0, 0, 1, 0>>(66);
  check<Config<1000, 2000, 1000, 14, 36, 2, 5>>(50); // One whole wave.
  check<Config<1000, 2000, 1000, 14, 36, 1, 8>>(50);
  check<Config<1000, 2000, 1000, 24, 16, 1, 5>>(40);
  check<Config<1000, 2000, 1000, 4, 16, 4, 3>>(20); // Three whole waves.
  check<Config<1000, 2000, 1000, 13, 4, 1, 3>>(17);
}

TEST_CASE("TileWalk: clusters share the last tiles of any run") {
  int sharing = 0;
  for (int clusters : {1, 5, 17, 50})
    for (int tiles = 1; tiles <= 64; ++tiles) {
      CAPTURE(clusters);
      CAPTURE(tiles);
      check<RunConfig>(clusters, tiles);
      sharing += kfuse::Shares<RunConfig>(tiles, clusters).tiles > 0;
    }
  CHECK(sharing > 50);
}
