#include "ir/import/onnx/quantised/Transposed.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace kfuse::ir::onnx {
namespace {

/// What is read along rows and written along columns while both are in the cache.
constexpr std::int64_t tile = 64;

/// Calls `move(row, column)` for every element of a matrix, tile by tile.
template <class Move> void forEachTiled(std::int64_t rows, std::int64_t columns, const Move &move) {
  for (std::int64_t top = 0; top < rows; top += tile)
    for (std::int64_t left = 0; left < columns; left += tile)
      for (std::int64_t row = top; row < std::min(top + tile, rows); ++row)
        for (std::int64_t column = left; column < std::min(left + tile, columns); ++column)
          move(row, column);
}

} // namespace

ParameterData transposed(const ParameterData &matrix) {
  assert(matrix.shape.size() == 2);
  const std::int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  ParameterData result{matrix.type, {columns, rows}, {}, {}};
  auto bytes = std::make_shared<std::vector<std::byte>>(byteSize(result.type, result.shape));
  const std::byte *from = matrix.bytes.data();
  std::byte *to = bytes->data();
  if (isPacked(matrix.type)) {
    const std::int64_t fromRow = (columns + 1) / 2, toRow = (rows + 1) / 2;
    forEachTiled(rows, columns, [&](std::int64_t row, std::int64_t column) {
      const auto value = std::to_integer<unsigned>(from[row * fromRow + column / 2]) >> column % 2 * 4 & 15U;
      to[column * toRow + row / 2] |= static_cast<std::byte>(value << row % 2 * 4);
    });
  } else {
    const auto width = static_cast<std::int64_t>(byteWidth(matrix.type));
    forEachTiled(rows, columns, [&](std::int64_t row, std::int64_t column) {
      std::memcpy(to + (column * rows + row) * width, from + (row * columns + column) * width,
                  static_cast<std::size_t>(width));
    });
  }
  result.bytes = *bytes;
  result.owner = bytes;
  return result;
}

} // namespace kfuse::ir::onnx
