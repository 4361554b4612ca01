#include "kfuse/types.h"

#include <array>

namespace kfuse {
namespace {

struct DTypeRow {
  DType type;
  std::string_view name;
  std::size_t bytes;
  bool isFloat;
};

constexpr std::array<DTypeRow, 6> dtypeRows{{{DType::F32, "f32", 4, true},
                                             {DType::F16, "f16", 2, true},
                                             {DType::BF16, "bf16", 2, true},
                                             {DType::I32, "i32", 4, false},
                                             {DType::I64, "i64", 8, false},
                                             {DType::Bool, "bool", 1, false}}};

const DTypeRow &row(DType type) { return dtypeRows[static_cast<std::size_t>(type)]; }

} // namespace

std::size_t byteWidth(DType type) { return row(type).bytes; }
std::string_view toString(DType type) { return row(type).name; }
bool isFloat(DType type) { return row(type).isFloat; }

std::optional<DType> parseDType(std::string_view text) {
  for (const DTypeRow &candidate : dtypeRows)
    if (candidate.name == text)
      return candidate.type;
  return std::nullopt;
}

std::int64_t elementCount(const Shape &shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape)
    count *= size;
  return count;
}

std::string toString(const Shape &shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  for (std::int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

} // namespace kfuse
