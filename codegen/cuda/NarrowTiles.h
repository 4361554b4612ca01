// Tiles of two widths: as many as fill whole waves, some of them narrower than the others.
#pragma once

#include <cstdint>
#include <optional>

namespace kfuse::codegen::cuda {

/// The tiles of a row of them, of which some are eight columns narrower (device/tile_walk.cuh). 4096 columns in 32
/// tiles of 128 are 1024 tiles for 4096 rows, 7.76 waves of 132 that take the time of eight; in 33 tiles, of which 16
/// are 120 wide, they are eight waves of tiles of 124.
struct NarrowTiles {
  static constexpr int64_t step = 8;

  int64_t width, tiles, narrow; ///< Columns of the wider ones; how many there are in a row; of them narrower ones.

  /// Of tiles of `width` for `columns`, in `tall` rows, `atOnce` of which run at once. None where tiles of one width
  /// come out even, or where no step makes up for a wave.
  static std::optional<NarrowTiles> of(int64_t columns, int64_t width, int64_t tall, int64_t atOnce);

  /// By how many tiles the narrow ones are to lie further on in each group of `raster` rows, so that the busiest of
  /// `atOnce` clusters has the fewest columns.
  int64_t bestShift(int64_t tall, int64_t raster, int64_t atOnce) const;
};

} // namespace kfuse::codegen::cuda
