// Tiles of two widths, so that they work off a wave that tiles of one width would not fill.
#pragma once

#include <cstdint>
#include <optional>

namespace kfuse::codegen::cuda {

/// A row of tiles, of which some are eight columns narrower than the others (device/tile_walk.cuh). 4096 columns in 32
/// tiles of 128 are 1024 tiles for 4096 rows, 7.76 waves of 132 that take the time of eight; in 33 tiles, of which 16
/// are 120 wide, they are eight waves of tiles of 124. Where one tile more would be a wave more, what the last one
/// lacks of its width is spread over all.
struct TwoWidths {
  static constexpr int64_t narrowBy = 8; ///< The step of wgmma.

  int64_t width, tiles, narrow; ///< Columns of the wider ones; how many there are in a row; of them narrower ones.

  /// For `columns` in `tall` rows of tiles, of which `atOnce` clusters compute one each at once: as many tiles as take
  /// no more waves than tiles of `width` do. None of less than two waves, or where tiles become less than a hundredth
  /// narrower in the mean, or of columns that are no multiple of eight.
  static std::optional<TwoWidths> of(int64_t columns, int64_t width, int64_t tall, int64_t atOnce);

  /// Where the narrow ones lie.
  struct Place {
    int64_t shift;   ///< By how many tiles further on in each group of rows.
    int64_t busiest; ///< Columns of the cluster that has most.
  };
  /// Of the first shifts the best, for groups of `raster` rows.
  Place place(int64_t tall, int64_t raster, int64_t atOnce) const;
};

} // namespace kfuse::codegen::cuda
