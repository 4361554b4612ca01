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
