#include "ir/import/checkpoint/Formats.h"
#include "ir/import/checkpoint/PackedWords.h"

namespace kfuse::ir::checkpoint {

QuantisedMatrix readCompressedTensors(const Layer &layer, const Scheme &scheme, std::int64_t n, std::int64_t k) {
  if (layer.integers("weight_shape") != std::vector{n, k})
    throw Unreadable("has another weight_shape than " + toString(Shape{n, k}));
  QuantisedMatrix matrix{.codes = {"weight_packed", {}}, .scales = layer.floats("weight_scale"), .blocks = {0, 0}};
  const std::int64_t bits = bitsOf("weight_packed", layer.tensor("weight_packed", "I32", 2).shape[1], k, scheme.bits);
  Shape &scales = matrix.scales.data.shape;
  if (elementCount(scales) == 1)
    scales = {1, 1};
  if (scales.size() != 2 || (scales[0] != n && elementCount(scales) != 1))
    throw Unreadable("has weight_scale of " + toString(scales) + " for N = " + std::to_string(n));
  const std::int64_t groups = scales[1], group = groupSize(scheme.group, k, groups);
  if (elementCount(scales) > 1)
    matrix.blocks = {1, group};
  matrix.order = columnOrderOf(layer, "weight_g_idx", k, group);
  // What is stored are integers around 0, and zeros around it, both plus the middle code.
  const PackedWords codes(layer, "weight_packed", 1, n, k, bits);
  matrix.codes.data = smallIntegers(codeType(bits), n, k, [&](std::int64_t row, std::int64_t column) {
    return codes.at(row, matrix.order.empty() ? column : matrix.order[column]);
  });
  matrix.zero = static_cast<double>(1 << (bits - 1));
  if (layer.holds("weight_zero_point")) {
    const PackedWords zeros(layer, "weight_zero_point", 0, groups, scales[0], bits);
    setZeros(matrix, "weight_zero_point", codeType(bits), scales[0], groups,
             [&](std::int64_t row, std::int64_t column) { return zeros.at(column, row); });
  }
  return matrix;
}

} // namespace kfuse::ir::checkpoint
