#include "kfuse/types.h"
#include "kfuse/half.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace kfuse {
namespace {

struct DTypeRow {
  DType type;
  std::string_view name;
  std::size_t bytes;
  bool isFloat;
};

constexpr std::array<DTypeRow, 12> dtypeRows{{{DType::F32, "f32", 4, true},
                                              {DType::F16, "f16", 2, true},
                                              {DType::BF16, "bf16", 2, true},
                                              {DType::I32, "i32", 4, false},
                                              {DType::I64, "i64", 8, false},
                                              {DType::Bool, "bool", 1, false},
                                              {DType::F8E4M3, "f8E4M3FN", 1, true},
                                              {DType::F8E5M2, "f8E5M2", 1, true},
                                              {DType::I8, "i8", 1, false},
                                              {DType::U8, "u8", 1, false},
                                              {DType::I4, "i4", 1, false},
                                              {DType::U4, "u4", 1, false}}};

constexpr DTypeRow noType{lastDType, "no type", 0, false};

/// A caller's cast may have made a type of any number.
const DTypeRow &row(DType type) {
  const auto number = static_cast<std::size_t>(type);
  return number < dtypeRows.size() ? dtypeRows[number] : noType;
}

} // namespace

std::size_t byteWidth(DType type) { return row(type).bytes; }
std::string_view toString(DType type) { return row(type).name; }
bool isFloat(DType type) { return row(type).isFloat; }
bool holds(DType type, double value) {
  if (isFloat(type))
    return true;
  if (const std::optional<SmallInteger> range = smallInteger(type))
    return value == std::trunc(value) && value >= static_cast<double>(range->lowest) &&
           value <= static_cast<double>(range->largest);
  const double end = type == DType::Bool ? 2 : type == DType::I32 ? 0x1p31 : 0x1p63;
  return value == std::trunc(value) && value < end && value >= (type == DType::Bool ? 0 : -end); // False for NaN.
}

bool isFloat8(DType type) { return isFloat(type) && byteWidth(type) == 1; }

bool isPacked(DType type) { return type == DType::I4 || type == DType::U4; }

std::optional<SmallInteger> smallInteger(DType type) {
  switch (type) {
  case DType::I8:
    return SmallInteger{-128, 127};
  case DType::U8:
    return SmallInteger{0, 255};
  case DType::I4:
    return SmallInteger{-8, 7};
  case DType::U4:
    return SmallInteger{0, 15};
  default:
    return std::nullopt;
  }
}

float readFloat(DType type, const std::byte *stored) {
  auto load = [&]<class T>(T value) {
    std::memcpy(&value, stored, sizeof value);
    return value;
  };
  switch (type) {
  case DType::F16:
    return f16ToFloat(load(std::uint16_t()));
  case DType::BF16:
    return bf16ToFloat(load(std::uint16_t()));
  case DType::F8E4M3:
    return e4m3ToFloat(load(std::uint8_t()));
  case DType::F8E5M2:
    return e5m2ToFloat(load(std::uint8_t()));
  case DType::F32:
    return load(float());
  default:
    return NAN;
  }
}

void storeFloat(DType type, float value, std::byte *stored) {
  auto store = [&](auto element) { std::memcpy(stored, &element, sizeof element); };
  switch (type) {
  case DType::F16:
    return store(floatToF16(value));
  case DType::BF16:
    return store(floatToBf16(value));
  case DType::F8E4M3:
    return store(floatToE4m3(value));
  case DType::F8E5M2:
    return store(floatToE5m2(value));
  case DType::F32:
    return store(value);
  default:
    return;
  }
}

std::optional<DType> parseDType(std::string_view text) {
  for (const DTypeRow &candidate : dtypeRows)
    if (candidate.name == text)
      return candidate.type;
  return std::nullopt;
}

std::int64_t elementCount(const Shape &shape) {
  std::int64_t count = 1;
  bool isMore = false;
  for (std::int64_t size : shape) {
    if (size <= 0)
      return 0;
    isMore |= __builtin_mul_overflow(count, size, &count);
  }
  return isMore ? INT64_MAX : count;
}

std::size_t byteSize(DType type, const Shape &shape) {
  std::size_t bytes = 0;
  const auto count = static_cast<std::size_t>(elementCount(isPacked(type) ? packedShape(shape) : shape));
  return __builtin_mul_overflow(byteWidth(type), count, &bytes) ? SIZE_MAX : bytes;
}

Shape packedShape(Shape shape) {
  if (!shape.empty() && shape.back() > 0)
    shape.back() = (shape.back() - 1) / 2 + 1;
  return shape;
}

std::size_t TensorDesc::bytes() const { return byteSize(type, shape); }

std::string toString(const Shape &shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  for (std::int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

} // namespace kfuse
