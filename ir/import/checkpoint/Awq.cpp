#include "ir/import/checkpoint/Formats.h"
#include "ir/import/checkpoint/PackedWords.h"

namespace kfuse::ir::checkpoint {

QuantisedMatrix readAwq(const Layer &layer, const Scheme &scheme, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t bits = 4, inWord = 8;
  // The word's columns 0 2 4 6 1 3 5 7 follow each other from its low bits on; this is where each is.
  constexpr std::int64_t placeOf[inWord] = {0, 4, 1, 5, 2, 6, 3, 7};
  QuantisedMatrix matrix{.codes = {"qweight", {}}, .scales = layer.transposedFloats("scales"), .blocks = {}};
  const std::int64_t groups = matrix.scales.data.shape[1];
  if (matrix.scales.data.shape[0] != n || n % inWord != 0)
    throw Unreadable("has scales for " + std::to_string(matrix.scales.data.shape[0]) +
                     " rows of N = " + std::to_string(n) + ", expected a multiple of 8");
  const PackedWords codes(layer, "qweight", 1, k, n, bits), zeros(layer, "qzeros", 1, groups, n, bits);
  auto placed = [&](std::int64_t row) { return row / inWord * inWord + placeOf[row % inWord]; };
  matrix.codes.data = smallIntegers(
      DType::U4, n, k, [&](std::int64_t row, std::int64_t column) { return codes.at(column, placed(row)); });
  setZeros(matrix, "qzeros", DType::U4, n, groups,
           [&](std::int64_t row, std::int64_t column) { return zeros.at(column, placed(row)); });
  matrix.blocks = {1, groupSize(scheme.group, k, groups)};
  return matrix;
}

} // namespace kfuse::ir::checkpoint
