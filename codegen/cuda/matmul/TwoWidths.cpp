#include "codegen/cuda/matmul/TwoWidths.h"

#include <algorithm>
#include <vector>

namespace kfuse::codegen::cuda {

std::optional<TwoWidths> TwoWidths::of(int64_t columns, int64_t width, int64_t tall, int64_t atOnce) {
  constexpr int64_t leastWaves = 2; // Of one wave others are better tiled narrower.
  const int64_t least = (columns + width - 1) / width, waves = (tall * least + atOnce - 1) / atOnce,
                most = std::min(waves * atOnce / tall, columns / (width - narrowBy));
  if (columns % narrowBy != 0 || waves < leastWaves || most < least)
    return std::nullopt;
  const TwoWidths row{width, most, (most * width - columns) / narrowBy};
  if (row.narrow >= row.tiles || 100 * columns > 99 * width * row.tiles)
    return std::nullopt;
  return row;
}

TwoWidths::Place TwoWidths::place(int64_t tall, int64_t raster, int64_t atOnce) const {
  constexpr int64_t mostShifts = 12; // 4096 cubed needs three to five.
  const int64_t columns = tiles * width - narrow * narrowBy, share = (tall * columns + atOnce - 1) / atOnce;
  Place best{0, INT64_MAX};
  for (int64_t shift = 0; shift < std::min(tiles, mostShifts) && best.busiest >= share + narrowBy; ++shift) {
    std::vector<int64_t> ofCluster(static_cast<size_t>(atOnce));
    int64_t number = 0;
    for (int64_t first = 0; first < tall; first += raster) {
      const int64_t group = first / raster, size = std::min(raster, tall - first);
      for (int64_t along = 0; along < tiles; ++along) {
        const int64_t at = group % 2 == 1 ? tiles - 1 - along : along; // Every other group goes backwards.
        const bool isNarrow = (at + tiles - group * shift % tiles) % tiles < narrow;
        for (int64_t i = 0; i < size; ++i, ++number)
          ofCluster[static_cast<size_t>(number % atOnce)] += isNarrow ? width - narrowBy : width;
      }
    }
    const int64_t busiest = *std::max_element(ofCluster.begin(), ofCluster.end());
    if (busiest < best.busiest)
      best = {shift, busiest};
  }
  return best;
}

} // namespace kfuse::codegen::cuda
