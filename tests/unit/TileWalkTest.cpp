// The way of persistent clusters through tiles, as the device library computes it.
#define __device__
#define __forceinline__ inline
#include "codegen/cuda/device/tile_walk.cuh"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace {

template <int Rows, int Columns, int Depth, int Streamed, int Pieces> struct Config {
  static constexpr int tileM = 128, tileN = 256, tileK = 64, rows = Rows, columns = Columns, K = Depth, batches = 2;
  static constexpr int clusterRows = 1, clusterColumns = 2, raster = 4;
  static constexpr bool rasterColumns = true;
  static constexpr int streamed = Streamed, pieces = Pieces;
};

/// Walks all clusters: every line of every tile is somebody's, once; who finishes a tile knows all who share it, and
/// waits only for clusters before it that have left their part before they wait for anybody.
template <class Config> void check(int clusters) {
  using Walk = kfuse::TileWalk<Config>;
  std::vector<std::vector<std::pair<int, int>>> owners(Walk::count * Walk::tilesK); // [line] -> cluster, its turn
  std::vector<std::set<int>> sharers(Walk::count);
  for (int cluster = 0; cluster < clusters; ++cluster) {
    int parts = 0, turn = 0;
    for (Walk walk(cluster, clusters); walk.isThere(); walk.advance(), ++turn) {
      REQUIRE(walk.firstK < walk.endK);
      for (int k = walk.firstK; k < walk.endK; ++k)
        owners[walk.number * Walk::tilesK + k].emplace_back(cluster, turn);
      parts += !walk.finishes();
      CHECK((walk.finishes() || turn == Walk::whole / clusters)); // Left before any other piece is begun.
      if (!walk.finishes())
        sharers[walk.number].insert(cluster);
    }
    CHECK(parts <= 1); // A block has one place for sums.
  }
  CHECK(std::all_of(owners.begin(), owners.end(), [](const auto &owner) { return owner.size() == 1; }));
  for (int cluster = 0; cluster < clusters; ++cluster)
    for (Walk walk(cluster, clusters); walk.isThere(); walk.advance())
      if (walk.finishes()) {
        std::set<int> expected;
        for (int other = cluster - 1; walk.firstK > 0 && other >= 0 && walk.sharesWith(other); --other)
          expected.insert(other);
        CHECK(sharers[walk.number] == expected);
      }
}

} // namespace

TEST_CASE("TileWalk: every line of K of every tile is one cluster's") {
  check<Config<1000, 2000, 1000, 0, 1>>(66);
  check<Config<1000, 2000, 1000, 64, 64>>(64);
  check<Config<1000, 2000, 1000, 64, 128>>(128);
  check<Config<1000, 2000, 1000, 64, 131>>(131);
  check<Config<1000, 2000, 1000, 64, 512>>(512);
  check<Config<1000, 2000, 1000, 14, 50>>(50);
  check<Config<1000, 2000, 1000, 14, 23>>(50);
  check<Config<100, 500, 4104, 2, 16>>(16);
  check<Config<100, 500, 4104, 2, 15>>(15);
}

TEST_CASE("TileWalk: lines of K times clusters may be more than 32 bits hold") {
  using Walk = kfuse::TileWalk<Config<1000, 2000, 1 << 24, 64, 131>>; // 2^24 lines.
  int64_t lines = 0;
  for (int cluster = 0; cluster < 131; ++cluster)
    for (Walk walk(cluster, 131); walk.isThere(); walk.advance()) {
      REQUIRE(walk.number < Walk::count);
      REQUIRE(walk.firstK >= 0);
      REQUIRE(walk.firstK < walk.endK);
      lines += walk.endK - walk.firstK;
    }
  CHECK(lines == int64_t{Walk::count} * Walk::tilesK);
}
