#include "kfuse/half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace kfuse;

TEST_CASE("half: every f16 and bf16 converts to float and back") {
  for (int i = 0; i < 0x10000; ++i) {
    auto bits = static_cast<std::uint16_t>(i);
    float wide = f16ToFloat(bits), brain = bf16ToFloat(bits);
    bool f16Holds = std::isnan(wide) ? std::isnan(f16ToFloat(floatToF16(wide))) : floatToF16(wide) == bits;
    bool bf16Holds = std::isnan(brain) ? std::isnan(bf16ToFloat(floatToBf16(brain))) : floatToBf16(brain) == bits;
    if (!f16Holds || !bf16Holds) {
      INFO(i);
      CHECK(f16Holds);
      CHECK(bf16Holds);
    }
  }
}

TEST_CASE("half: known values") {
  CHECK(f16ToFloat(0x3c00) == 1);
  CHECK(f16ToFloat(0xc000) == -2);
  CHECK(f16ToFloat(0x7bff) == 65504);
  CHECK(f16ToFloat(0x0001) == std::ldexp(1.0F, -24));
  CHECK(f16ToFloat(0x7c00) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(f16ToFloat(0x7e00)));
  CHECK(bf16ToFloat(0x3f80) == 1);
}

TEST_CASE("half: rounding is to nearest, ties to even, and overflow to infinity") {
  CHECK(floatToF16(1 + std::ldexp(1.0F, -11)) == 0x3c00);
  CHECK(floatToF16(1 + 3 * std::ldexp(1.0F, -11)) == 0x3c02);
  CHECK(floatToF16(std::nextafter(1 + std::ldexp(1.0F, -11), 2.0F)) == 0x3c01);
  CHECK(floatToF16(65519.996F) == 0x7bff);
  CHECK(floatToF16(65520) == 0x7c00);
  CHECK(floatToF16(-1e30F) == 0xfc00);
  CHECK(floatToF16(std::ldexp(1.0F, -25)) == 0);
  CHECK(floatToF16(3 * std::ldexp(1.0F, -25)) == 2);
  CHECK(floatToF16(std::nextafter(std::ldexp(1.0F, -14), 0.0F)) == 0x0400);
  CHECK(floatToF16(-0.0F) == 0x8000);
  CHECK(floatToBf16(1 + std::ldexp(1.0F, -8)) == 0x3f80);
  CHECK(floatToBf16(1 + 3 * std::ldexp(1.0F, -8)) == 0x3f82);
  CHECK(floatToBf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(std::isnan(bf16ToFloat(floatToBf16(std::bit_cast<float>(0x7f800001U)))));
}

TEST_CASE("half: every 8-bit float converts to float and back") {
  for (int i = 0; i < 0x100; ++i) {
    auto bits = static_cast<std::uint8_t>(i);
    float four = e4m3ToFloat(bits), five = e5m2ToFloat(bits);
    CAPTURE(i);
    CHECK(std::isnan(four) == ((i & 0x7f) == 0x7f));
    CHECK(std::isnan(five) == ((i & 0x7f) > 0x7c));
    CHECK(floatToE4m3(four) == bits);
    // NaN has one spelling a sign, infinity saturates.
    CHECK(floatToE5m2(five) == (std::isnan(five) ? bits | 0x7f : std::isinf(five) ? bits - 1 : bits));
  }
}

TEST_CASE("half: 8-bit floats round to nearest, ties to even, and saturate") {
  CHECK(e4m3ToFloat(0x38) == 1);
  CHECK(e4m3ToFloat(0x7e) == 448);
  CHECK(e4m3ToFloat(0x01) == std::ldexp(1.0F, -9));
  CHECK(e4m3ToFloat(0x08) == std::ldexp(1.0F, -6));
  CHECK(e5m2ToFloat(0xbc) == -1);
  CHECK(e5m2ToFloat(0x7b) == 57344);
  CHECK(e5m2ToFloat(0x01) == std::ldexp(1.0F, -16));
  CHECK(e5m2ToFloat(0xfc) == -std::numeric_limits<float>::infinity());
  CHECK(floatToE4m3(1.0625F) == 0x38);
  CHECK(floatToE4m3(1.1875F) == 0x3a);
  CHECK(floatToE4m3(std::nextafter(1.0625F, 2.0F)) == 0x39);
  CHECK(floatToE4m3(std::ldexp(1.0F, -10)) == 0);
  CHECK(floatToE4m3(3 * std::ldexp(1.0F, -10)) == 2);
  CHECK(floatToE4m3(std::nextafter(std::ldexp(1.0F, -6), 0.0F)) == 0x08);
  CHECK(floatToE4m3(464) == 0x7e);
  CHECK(floatToE4m3(-std::numeric_limits<float>::infinity()) == 0xfe);
  CHECK(floatToE4m3(-0.0F) == 0x80);
  CHECK(floatToE5m2(1.125F) == 0x3c);
  CHECK(floatToE5m2(1.375F) == 0x3e);
  CHECK(floatToE5m2(1e9F) == 0x7b);
  CHECK(floatToE5m2(std::ldexp(1.0F, -17)) == 0);
  CHECK(floatToE5m2(std::nextafter(std::ldexp(1.0F, -17), 1.0F)) == 1);
}

TEST_CASE("half: elements by type, at any address") {
  std::byte bytes[5];
  for (DType type : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    storeFloat(type, -1.25F, bytes + 1);
    CHECK(readFloat(type, bytes + 1) == -1.25F);
  }
}
