#include "ir/reference/Tensor.h"

#include "ir/reference/Parallel.h"
#include "kfuse/half.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numbers>

namespace kfuse::reference {
namespace {

constexpr std::int64_t conversionGrain = 1 << 16;

/// `value` as f32, an inexact result with its last bit odd: rounding that to a format of at least two
/// bits less is then as if `value` had been rounded there at once (Boldo and Melquiond, 2008).
float toFloatRoundingToOdd(double value) {
  auto nearest = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::isnan(value) || nearest == value || bits & 1)
    return nearest;
  return std::bit_cast<float>(std::fabs(nearest) > std::fabs(value) ? bits - 1 : bits + 1);
}

//===- Stored elements -----------------------------------------------------------------------===//

// One struct a type: its stored form, and that to and from a Number.
struct F32 {
  using Stored = float;
  static Number read(Stored value) { return {.real = value}; }
  static Stored write(Number number) { return static_cast<float>(number.real); }
};
struct F16 {
  using Stored = std::uint16_t;
  static Number read(Stored bits) { return {.real = f16ToFloat(bits)}; }
  static Stored write(Number number) { return floatToF16(toFloatRoundingToOdd(number.real)); }
};
struct BF16 {
  using Stored = std::uint16_t;
  static Number read(Stored bits) { return {.real = bf16ToFloat(bits)}; }
  static Stored write(Number number) { return floatToBf16(toFloatRoundingToOdd(number.real)); }
};
struct F8E4M3 {
  using Stored = std::uint8_t;
  static Number read(Stored bits) { return {.real = e4m3ToFloat(bits)}; }
  static Stored write(Number number) { return floatToE4m3(toFloatRoundingToOdd(number.real)); }
};
struct F8E5M2 {
  using Stored = std::uint8_t;
  static Number read(Stored bits) { return {.real = e5m2ToFloat(bits)}; }
  static Stored write(Number number) { return floatToE5m2(toFloatRoundingToOdd(number.real)); }
};
template <class T> struct Integer {
  using Stored = T;
  static Number read(Stored value) { return {.integer = value}; }
  static Stored write(Number number) { return static_cast<T>(number.integer); }
};

/// Calls `visitor` with the struct of `type`.
template <class Visitor> auto visit(DType type, Visitor visitor) {
  switch (type) {
  case DType::F32:
    return visitor(F32{});
  case DType::F16:
    return visitor(F16{});
  case DType::BF16:
    return visitor(BF16{});
  case DType::F8E4M3:
    return visitor(F8E4M3{});
  case DType::F8E5M2:
    return visitor(F8E5M2{});
  case DType::I32:
    return visitor(Integer<std::int32_t>{});
  case DType::I64:
    return visitor(Integer<std::int64_t>{});
  case DType::I8:
    return visitor(Integer<std::int8_t>{});
  default: // Bool and U8. Packed elements have no stored form of their own.
    return visitor(Integer<std::uint8_t>{});
  }
}

template <class Element> typename Element::Stored load(const std::byte *stored, std::int64_t i) {
  typename Element::Stored element;
  std::memcpy(&element, stored + i * sizeof(element), sizeof(element));
  return element;
}

template <class Element> void store(Number number, std::byte *stored, std::int64_t i) {
  typename Element::Stored element = Element::write(number);
  std::memcpy(stored + i * sizeof(element), &element, sizeof(element));
}

//===- Noise ---------------------------------------------------------------------------------===//

/// 53 random bits in [0, 1).
double unitInterval(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

template <class Draw> HostTensor fill(DType type, Shape shape, Draw draw) {
  HostTensor tensor = HostTensor::zeros(type, std::move(shape));
  if (isPacked(type)) {
    const PackedElements place(type, tensor.shape);
    for (std::int64_t i = 0; i < tensor.size(); ++i) { // On one thread: neighbours share a byte.
      std::byte &byte = tensor.bytes[place.byteOf(i)];
      byte = place.write(draw(i), byte, i);
    }
    return tensor;
  }
  visit(type, [&](auto element) {
    parallelFor(tensor.size(), conversionGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        store<decltype(element)>(draw(i), tensor.bytes.data(), i);
    });
  });
  return tensor;
}

Number numberOf(DType type, double value) {
  return isFloat(type) ? Number{.real = value} : Number{.integer = static_cast<std::int64_t>(std::floor(value))};
}

} // namespace

/// Splitmix64 (Steele, Lea and Flood, 2014), which any
/// thread can enter anywhere.
std::uint64_t wordAt(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed * 0xd1342543de82ef95 + (i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double uniformAt(std::uint64_t seed, std::uint64_t i) { return 2 * unitInterval(wordAt(seed, i)) - 1; }

HostTensor HostTensor::zeros(DType type, Shape shape) {
  HostTensor tensor{type, std::move(shape), {}};
  tensor.bytes.resize(byteSize(type, tensor.shape));
  return tensor;
}

PackedElements::PackedElements(DType type, const Shape &shape)
    : type(type), row(shape.empty() ? 1 : std::max<std::int64_t>(shape.back(), 1)), rowBytes((row + 1) / 2) {}

Number PackedElements::read(std::byte byte, std::int64_t element) const {
  const auto bits = std::to_integer<std::int64_t>(byte) >> shiftOf(element) & 15;
  return {.integer = type == DType::I4 ? (bits ^ 8) - 8 : bits};
}

std::byte PackedElements::write(Number number, std::byte byte, std::int64_t element) const {
  const unsigned shift = shiftOf(element);
  const auto bits = static_cast<std::byte>(number.integer & 15);
  return (byte & ~(std::byte{15} << shift)) | bits << shift;
}

double roundTo(DType type, double value) {
  return visit(type, [&](auto element) { return element.read(element.write({.real = value})).real; });
}

void readNumbers(DType type, const std::byte *stored, std::int64_t begin, std::int64_t stride, std::int64_t count,
                 Number *out) {
  visit(type, [&](auto element) {
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = element.read(load<decltype(element)>(stored, begin + i * stride));
  });
}

Values toValues(const HostTensor &tensor) {
  assert(tensor.bytes.size() == byteSize(tensor.type, tensor.shape) && "a whole tensor");
  Values values{tensor.type, tensor.shape, std::vector<Number>(static_cast<std::size_t>(tensor.size()))};
  const PackedElements packed(tensor.type, tensor.shape);
  parallelFor(tensor.size(), conversionGrain, [&](std::int64_t begin, std::int64_t end) {
    if (!isPacked(tensor.type))
      return readNumbers(tensor.type, tensor.bytes.data(), begin, 1, end - begin, values.numbers.data() + begin);
    for (std::int64_t i = begin; i < end; ++i)
      values.numbers[i] = packed.read(tensor.bytes[packed.byteOf(i)], i);
  });
  return values;
}

HostTensor toTensor(const Values &values) {
  return fill(values.type, values.shape, [&](std::int64_t i) { return values.numbers[i]; });
}

HostTensor tensorOf(DType type, Shape shape, const std::vector<double> &values) {
  return fill(type, std::move(shape), [&](std::int64_t i) { return numberOf(type, values[i]); });
}

std::vector<double> toDoubles(const HostTensor &tensor) {
  Values values = toValues(tensor);
  std::vector<double> result;
  result.reserve(values.numbers.size());
  for (Number number : values.numbers)
    result.push_back(isFloat(tensor.type) ? number.real : static_cast<double>(number.integer));
  return result;
}

HostTensor uniform(DType type, Shape shape, std::uint64_t seed, double low, double high) {
  return fill(type, std::move(shape),
              [=](std::int64_t i) { return numberOf(type, low + (high - low) * unitInterval(wordAt(seed, i))); });
}

HostTensor normal(DType type, Shape shape, std::uint64_t seed, double deviation) {
  // The sum of four uniforms has the variance 1 / 3 and reaches 3.46 deviations.
  double scale = deviation * std::numbers::sqrt3 * 0x1p-16;
  return fill(type, std::move(shape), [=](std::int64_t i) {
    std::uint64_t word = wordAt(seed, i), mask = 0xffff;
    std::uint64_t sum = (word & mask) + (word >> 16 & mask) + (word >> 32 & mask) + (word >> 48);
    return numberOf(type, scale * (static_cast<double>(sum) - 2 * 0xffff));
  });
}

HostTensor integers(DType type, Shape shape, std::uint64_t seed, std::int64_t low, std::int64_t high) {
  auto span = static_cast<std::uint64_t>(high - low);
  return fill(type, std::move(shape), [=](std::int64_t i) {
    std::int64_t value = low + static_cast<std::int64_t>(wordAt(seed, i) % span);
    return isFloat(type) ? Number{.real = static_cast<double>(value)} : Number{.integer = value};
  });
}

double weightDeviation(const Shape &shape) {
  if (shape.size() < 2)
    return 1;
  const std::int64_t shorter = std::min(shape[shape.size() - 2], shape.back());
  return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(shorter, 1)));
}

} // namespace kfuse::reference
