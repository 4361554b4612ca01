// Tiles of two widths: how many, and where, as the host chooses and as the device library walks them.
#define __device__
#define __forceinline__ inline
#include "codegen/cuda/matmul/TwoWidths.h"
#include "codegen/cuda/device/matmul/tile_walk.cuh"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <vector>

namespace {

using kfuse::codegen::cuda::TwoWidths;

template <int Rows, int Columns, int Width, int Narrow, int Shift, int Raster> struct Config {
  static constexpr int tileM = 128, tileN = Width, tileK = 64, rows = Rows, columns = Columns, K = 64, batches = 1;
  static constexpr int clusterRows = 1, clusterColumns = 1, raster = Raster, narrowTiles = Narrow, narrowShift = Shift;
  static constexpr bool rasterColumns = false;
  static constexpr int streamed = 0;
};

static_assert(TwoWidths::narrowBy == kfuse::ClusterTile<Config<1, 8, 8, 0, 0, 1>>::narrowBy);

/// Every column of every row of tiles is one tile's; the columns of the busiest of `clusters`.
template <class Config> int busiest(int clusters) {
  using Tile = kfuse::ClusterTile<Config>;
  std::vector<int> owners(static_cast<std::size_t>(Tile::tall * Config::columns)), columns(clusters);
  for (int number = 0; number < Tile::count; ++number) {
    const Tile tile(number);
    const int width = tile.isNarrow ? Config::tileN - Tile::narrowBy : Config::tileN;
    REQUIRE(tile.column >= 0);
    REQUIRE(tile.column + width <= Config::columns);
    for (int column = tile.column; column < tile.column + width; ++column)
      ++owners[static_cast<std::size_t>(tile.row / Config::tileM * Config::columns + column)];
    columns[static_cast<std::size_t>(number % clusters)] += width;
  }
  CHECK(std::all_of(owners.begin(), owners.end(), [](int count) { return count == 1; }));
  return *std::max_element(columns.begin(), columns.end());
}

} // namespace

TEST_CASE("TwoWidths: 4096 columns in 33 tiles, 16 of them of 120, fill eight waves for 4096 rows") {
  const auto row = TwoWidths::of(4096, 128, 32, 132);
  REQUIRE(row);
  CHECK(row->tiles == 33);
  CHECK(row->narrow == 16);
  // 992.97 are an SM's share. Where the narrow ones stay in place some SMs get hardly any.
  for (auto [raster, shift] : {std::pair{3, 4}, {6, 3}}) {
    CHECK(row->place(32, raster, 132).shift == shift);
    CHECK(row->place(32, raster, 132).busiest == 1000);
  }
  CHECK(busiest<Config<4096, 4096, 128, 16, 4, 3>>(132) == 1000);
  CHECK(busiest<Config<4096, 4096, 128, 16, 3, 6>>(132) == 1000);
  CHECK(busiest<Config<4096, 4096, 128, 16, 0, 3>>(132) == 1008);
}

TEST_CASE("TwoWidths: every column is one tile's, wherever the narrow ones lie") {
  busiest<Config<1000, 5 * 96 - 8, 96, 1, 0, 4>>(7);
  busiest<Config<1000, 5 * 96 - 8 * 4, 96, 4, 1, 4>>(7);
  busiest<Config<1000, 5 * 96 - 8 * 3, 96, 3, 2, 1>>(7);
  busiest<Config<1000, 5 * 96 - 8 * 3, 96, 3, 4, 3>>(7);
  busiest<Config<4000, 7 * 144 - 8 * 6, 144, 6, 3, 1>>(7);
  busiest<Config<4000, 7 * 144 - 8 * 2, 144, 2, 5, 2>>(7);
}

TEST_CASE("TwoWidths: there are none where tiles come out even, or are a wave") {
  CHECK_FALSE(TwoWidths::of(4224, 128, 32, 132));
  CHECK_FALSE(TwoWidths::of(4224 - 40, 128, 32, 132)); // A hundredth is 42.
  CHECK_FALSE(TwoWidths::of(4096, 128, 2, 132));
  CHECK_FALSE(TwoWidths::of(4093, 128, 32, 132));
}

TEST_CASE("TwoWidths: both widths together are the columns, in no more waves than one width takes") {
  CHECK(rc::check([] {
    const auto columns = *rc::gen::inRange<std::int64_t>(1, 2000) * 8,
               width = *rc::gen::inRange<std::int64_t>(4, 17) * 16, tall = *rc::gen::inRange<std::int64_t>(1, 80),
               atOnce = *rc::gen::inRange<std::int64_t>(4, 140);
    const auto row = TwoWidths::of(columns, width, tall, atOnce);
    RC_PRE(row.has_value());
    RC_ASSERT(row->narrow > 0 && row->narrow < row->tiles);
    RC_ASSERT(row->tiles * width - row->narrow * TwoWidths::narrowBy == columns);
    const std::int64_t ofOneWidth = tall * ((columns + width - 1) / width);
    RC_ASSERT((row->tiles * tall + atOnce - 1) / atOnce <= (ofOneWidth + atOnce - 1) / atOnce);
    const TwoWidths::Place place = row->place(tall, 3, atOnce);
    RC_ASSERT(place.shift >= 0 && place.shift < row->tiles);
    RC_ASSERT(place.busiest * atOnce >= tall * columns);
    RC_ASSERT(place.busiest <= (row->tiles * tall + atOnce - 1) / atOnce * width);
  }));
}
