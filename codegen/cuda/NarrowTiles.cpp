#include "codegen/cuda/NarrowTiles.h"

#include <algorithm>
#include <vector>

namespace kfuse::codegen::cuda {

std::optional<NarrowTiles> NarrowTiles::of(int64_t columns, int64_t width, int64_t tall, int64_t atOnce) {
  constexpr int64_t leastWaves = 2; // Of one wave others are better tiled narrower.
  const int64_t least = (columns + width - 1) / width, waves = (tall * least + atOnce - 1) / atOnce,
                most = std::min(waves * atOnce / tall, columns / (width - step));
  if (columns % step != 0 || waves < leastWaves || most < least)
    return std::nullopt;
  const NarrowTiles row{width, most, (most * width - columns) / step};
  // A hundredth less for each SM, or it is not worth the other width.
  if (row.narrow == 0 || row.narrow >= row.tiles || 100 * columns > 99 * width * row.tiles)
    return std::nullopt;
  return row;
}

int64_t NarrowTiles::bestShift(int64_t tall, int64_t raster, int64_t atOnce) const {
  int64_t best = 0, fewest = INT64_MAX;
  for (int64_t shift = 0; shift < tiles; ++shift) {
    std::vector<int64_t> columns(static_cast<size_t>(atOnce)); // Of each cluster.
    int64_t number = 0;
    for (int64_t first = 0; first < tall; first += raster) {
      const int64_t group = first / raster, size = std::min(raster, tall - first);
      for (int64_t along = 0; along < tiles; ++along) {
        const int64_t at = group % 2 == 1 ? tiles - 1 - along : along; // Every other group goes backwards.
        const bool isNarrow = (at + tiles - group * shift % tiles) % tiles < narrow;
        for (int64_t i = 0; i < size; ++i, ++number)
          columns[static_cast<size_t>(number % atOnce)] += isNarrow ? width - step : width;
      }
    }
    const int64_t busiest = *std::max_element(columns.begin(), columns.end());
    if (busiest < fewest)
      fewest = busiest, best = shift;
  }
  return best;
}

} // namespace kfuse::codegen::cuda
