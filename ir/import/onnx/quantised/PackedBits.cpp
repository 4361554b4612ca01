#include "ir/import/onnx/quantised/PackedBits.h"

#include "ir/reference/Tensor.h"

#include <cassert>

namespace kfuse::ir::onnx {

ParameterData unpacked(const ParameterData &data, const PackedRows &rows, std::span<const std::int64_t> columns) {
  assert(std::cmp_equal(data.bytes.size(), rows.rows * rows.rowBytes()) && "the caller has compared the sizes");
  ParameterData result{rows.type(), {rows.rows, rows.columns}, data.bytes, data.owner};
  if (rows.bits != 2 && columns.empty())
    return result;
  const std::int64_t perByte = 8 / rows.bits, rowBytes = rows.rowBytes(),
                     keptBytes = static_cast<std::int64_t>(byteSize(result.type, {rows.columns}));
  const unsigned mask = (1U << rows.bits) - 1;
  auto kept = std::make_shared<std::vector<std::byte>>(byteSize(result.type, result.shape));
  for (std::int64_t row = 0; row < rows.rows; ++row)
    for (std::int64_t to = 0; to < rows.columns; ++to) {
      const std::int64_t from = columns.empty() ? to : columns[static_cast<std::size_t>(to)];
      const auto byte = std::to_integer<unsigned>(data.bytes[row * rowBytes + from / perByte]);
      const unsigned value = byte >> from % perByte * rows.bits & mask;
      const bool isHalf = isPacked(result.type);
      (*kept)[row * keptBytes + (isHalf ? to / 2 : to)] |= static_cast<std::byte>(value << (isHalf ? to % 2 * 4 : 0));
    }
  result.bytes = *kept;
  result.owner = kept;
  return result;
}

} // namespace kfuse::ir::onnx
