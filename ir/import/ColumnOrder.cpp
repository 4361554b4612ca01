#include "ir/import/ColumnOrder.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kfuse::ir {

std::optional<std::vector<std::int64_t>> columnOrder(std::span<const std::int64_t> blocks, std::int64_t size) {
  std::vector<std::int64_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::int64_t column) { return std::pair(blocks[column], column); });
  for (std::int64_t place = 0; place < std::ssize(order); ++place)
    if (blocks[order[place]] != place / size)
      return std::nullopt;
  return std::ranges::is_sorted(order) ? std::vector<std::int64_t>() : order;
}

} // namespace kfuse::ir
