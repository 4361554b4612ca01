// The floats of 16 and 8 bits on the host: their bits to float and back, rounding to nearest even.
#pragma once

#include "kfuse/types.h"

#include <bit>
#include <cstdint>

namespace kfuse {

constexpr float bf16ToFloat(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

constexpr std::uint16_t floatToBf16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return static_cast<std::uint16_t>(bits >> 16 | 0x40); // NaN stays NaN, made quiet.
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// f16 has 5 exponent bits (bias 15) and 10 of mantissa; f32 has 8 (bias 127) and 23.
constexpr float f16ToFloat(std::uint16_t bits) {
  std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fff) << 13;
  if (magnitude >= 0x0f800000) // Infinity and NaN: the exponent's bits all set.
    return std::bit_cast<float>(sign | magnitude | 0x7f800000);
  // Read as an f32 the value is 2^112 too small; the product is exact, subnormals too.
  float value = std::bit_cast<float>(magnitude) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

constexpr std::uint16_t floatToF16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00;
  if (magnitude >= 0x477ff000) // 65520 and above round to infinity.
    return sign | 0x7c00;
  if (magnitude >= 0x38800000) { // 2^-14 and above: normal.
    std::uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
    return static_cast<std::uint16_t>(sign | rounded >> 13);
  }
  // Adding 0.5 makes the FPU round to multiples of 2^-24, the step of subnormal f16.
  float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
}

namespace detail {

/// An 8-bit float: a sign, 7 - mantissaBits of exponent, the mantissa. 2^(1 - bias) is its smallest normal number.
struct Float8 {
  int mantissaBits, bias;
  float largest;
  std::uint8_t firstNan; ///< Magnitudes from here on are NaN.
  bool hasInfinity;      ///< The magnitude before firstNan is infinity.
};
inline constexpr Float8 e4m3{3, 7, 448, 0x7f, false}, e5m2{2, 15, 57344, 0x7d, true};

template <Float8 format> constexpr float float8ToFloat(std::uint8_t bits) {
  std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80) << 24, magnitude = bits & 0x7f;
  if (magnitude >= format.firstNan)
    return std::bit_cast<float>(sign | 0x7fc00000);
  if (format.hasInfinity && magnitude + 1 == format.firstNan)
    return std::bit_cast<float>(sign | 0x7f800000);
  // Read as an f32 the value is 2^(127 - bias) too small; the product is exact, subnormals too.
  auto scale = std::bit_cast<float>(static_cast<std::uint32_t>(254 - format.bias) << 23);
  float value = std::bit_cast<float>(magnitude << (23 - format.mantissaBits)) * scale;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

template <Float8 format> constexpr std::uint8_t floatToFloat8(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80);
  std::uint32_t magnitude = bits & 0x7fffffff;
  constexpr std::uint32_t largest = std::bit_cast<std::uint32_t>(format.largest);
  constexpr int dropped = 23 - format.mantissaBits;
  if (magnitude > 0x7f800000)
    return sign | 0x7f;
  if (magnitude > largest)
    magnitude = largest;
  constexpr std::uint32_t smallestNormal = (128 - format.bias) << 23, rebias = (127 - format.bias) << 23;
  if (magnitude >= smallestNormal)
    return sign | static_cast<std::uint8_t>(
                      (magnitude - rebias + (1U << (dropped - 1)) - 1 + (magnitude >> dropped & 1)) >> dropped);
  // Adding a power of two whose last place is the step of subnormal values makes the FPU round to it.
  constexpr std::uint32_t shifter = (128 - format.bias + dropped) << 23;
  float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(shifter);
  return sign | static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(shifted) - shifter);
}

} // namespace detail

constexpr float e4m3ToFloat(std::uint8_t bits) { return detail::float8ToFloat<detail::e4m3>(bits); }
constexpr float e5m2ToFloat(std::uint8_t bits) { return detail::float8ToFloat<detail::e5m2>(bits); }
/// What is beyond the largest number, infinity too, becomes the largest; NaN is 0x7f with its sign.
constexpr std::uint8_t floatToE4m3(float value) { return detail::floatToFloat8<detail::e4m3>(value); }
constexpr std::uint8_t floatToE5m2(float value) { return detail::floatToFloat8<detail::e5m2>(value); }

/// The element of a float type at `stored`, and `value` rounded to one; at any address. Of another type NaN is read,
/// and nothing stored.
KFUSE_API float readFloat(DType type, const std::byte *stored);
KFUSE_API void storeFloat(DType type, float value, std::byte *stored);

} // namespace kfuse
