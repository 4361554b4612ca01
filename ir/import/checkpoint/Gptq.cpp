#include "ir/import/checkpoint/Formats.h"
#include "ir/import/checkpoint/PackedWords.h"

#include <algorithm>

namespace kfuse::ir::checkpoint {

QuantisedMatrix readGptq(const Layer &layer, const Scheme &scheme, std::int64_t n, std::int64_t k) {
  QuantisedMatrix matrix{.codes = {"qweight", {}}, .scales = layer.transposedFloats("scales"), .blocks = {}};
  const std::int64_t words = layer.tensor("qweight", "I32", 2).shape[0],
                     bits = words * 32 % k == 0 ? words * 32 / k : 0;
  if (std::ranges::find(scheme.bits, bits) == scheme.bits.end())
    throw Unreadable("has " + std::to_string(words) + " words along K = " + std::to_string(k) +
                     " in qweight; kfuse reads 2, 3, 4 and 8 bits in full words");
  const std::int64_t groups = matrix.scales.data.shape[1], group = groupSize(scheme.group, k, groups);
  if (matrix.scales.data.shape[0] != n)
    throw Unreadable("has scales for " + std::to_string(matrix.scales.data.shape[0]) +
                     " rows of N = " + std::to_string(n));
  matrix.order = columnOrderOf(layer, "g_idx", k, group);
  const PackedWords codes(layer, "qweight", 0, n, k, bits), zeros(layer, "qzeros", 1, groups, n, bits);
  matrix.codes.data = smallIntegers(codeType(bits), n, k, [&](std::int64_t row, std::int64_t column) {
    return codes.at(row, matrix.order.empty() ? column : matrix.order[column]);
  });
  // The sum wraps, as in AutoGPTQ and GPTQModel: a zero of 0 was stored as 2^bits - 1.
  const unsigned lessBy = scheme.areZerosLessOne ? 1 : 0, mask = (1U << bits) - 1;
  setZeros(matrix, "qzeros", codeType(bits), n, groups,
           [&](std::int64_t row, std::int64_t column) { return (zeros.at(column, row) + lessBy) & mask; });
  matrix.blocks = {1, group};
  return matrix;
}

} // namespace kfuse::ir::checkpoint
