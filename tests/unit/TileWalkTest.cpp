// The way of persistent clusters through tiles, as the device library computes it.
#define __device__
#define __forceinline__ inline
#include "codegen/cuda/device/tile_walk.cuh"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace {

/// Two columns of clusters that are two tiles of 128 x 256 wide.
template <int Rows, int Columns, int Depth, int Streamed, int Helpers, int Pieces, int PieceLines> struct Config {
  static constexpr int tileM = 128, tileN = 256, tileK = 64, rows = Rows, columns = Columns, K = Depth, batches = 2;
  static constexpr int clusterRows = 1, clusterColumns = 2, raster = 4;
  static constexpr bool rasterColumns = true;
  static constexpr int streamed = Streamed, helpers = Helpers, pieces = Pieces, pieceLines = PieceLines;
};

struct Turn {
  int cluster, turn;
};

/// Walks all clusters: every line of every tile is somebody's, once; every piece has a place of its own, which whoever
/// finishes the tile knows; helpers wait for nobody and come first.
template <class Config> void check(int clusters) {
  using Walk = kfuse::TileWalk<Config>;
  std::vector<std::vector<Turn>> owners(Walk::count * Walk::tilesK);
  std::map<int, std::pair<int, Turn>> pieces; // Place -> tile and who leaves sums there.
  for (int cluster = 0; cluster < clusters; ++cluster) {
    int turn = 0;
    bool helps = false, waits = false;
    for (Walk walk(cluster, clusters); walk.isThere(); walk.advance(), ++turn) {
      REQUIRE(walk.number >= 0);
      REQUIRE(walk.firstK < walk.endK);
      Walk following = walk;
      following.advance();
      CHECK(walk.hasNext() == following.isThere()); // Else a warpgroup waits for its turn, and nobody gives it.
      for (int k = walk.firstK; k < walk.endK; ++k)
        owners[walk.number * Walk::tilesK + k].push_back({cluster, turn});
      if (!walk.finishes()) {
        CHECK(pieces.emplace(walk.firstPiece(), std::pair(walk.number, Turn{cluster, turn})).second);
        CHECK(walk.firstPiece() < Walk::allPieces);
        CHECK((Walk::whole == 0 || walk.hasNext())); // A tile of its own hides how its sums travel.
      }
      helps |= !walk.finishes(), waits |= walk.isHelped();
    }
    CHECK_FALSE((helps && waits)); // Or clusters might wait for each other.
    CHECK((!waits || cluster >= Config::helpers));
    CHECK((!helps || cluster < Config::helpers));
  }
  CHECK(std::all_of(owners.begin(), owners.end(), [](const auto &owner) { return owner.size() == 1; }));
  std::size_t taken = 0;
  for (int cluster = 0; cluster < clusters; ++cluster)
    for (Walk walk(cluster, clusters); walk.isThere(); walk.advance())
      if (walk.isHelped())
        for (int piece = 0; piece < Config::pieces; ++piece, ++taken) {
          REQUIRE(pieces.count(walk.firstPiece() + piece) == 1);
          CHECK(pieces[walk.firstPiece() + piece].first == walk.number);
        }
  CHECK(taken == pieces.size());
  CHECK(taken == static_cast<std::size_t>(Walk::allPieces));
}

} // namespace

// 64 tiles of clusters; 16 lines of K.
TEST_CASE("TileWalk: every line of K of every tile is one cluster's") {
  check<Config<1000, 2000, 1000, 0, 0, 1, 0>>(66);
  check<Config<1000, 2000, 1000, 64, 64, 1, 8>>(128); // Fewer tiles than clusters.
  check<Config<1000, 2000, 1000, 64, 66, 1, 8>>(130);
  check<Config<1000, 2000, 1000, 64, 20, 1, 3>>(84);
  check<Config<1000, 2000, 1000, 64, 192, 3, 4>>(256);
  check<Config<1000, 2000, 1000, 14, 36, 2, 5>>(50); // One whole wave, ...
  check<Config<1000, 2000, 1000, 14, 36, 1, 8>>(50);
  check<Config<1000, 2000, 1000, 24, 16, 1, 5>>(40);
  check<Config<1000, 2000, 1000, 4, 16, 4, 3>>(20); // ... and three.
  check<Config<1000, 2000, 1000, 13, 4, 1, 3>>(17);
  check<Config<100, 500, 4104, 2, 14, 7, 8>>(16);
}
