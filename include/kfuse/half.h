// The 16-bit floats on the host: their bits to float and back, rounding to nearest even.
#pragma once

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

} // namespace kfuse
