// Stored elements, their rounding, and seeded noise.
#include "ir/reference/Tensor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace kfuse;
using namespace kfuse::reference;

TEST_CASE("tensor: f64 rounds to each type once, ties to even") {
  CHECK(roundTo(DType::BF16, 1.00390625) == 1.0);                   // A tie: 1 + 2^-8.
  CHECK(roundTo(DType::BF16, 1.01171875) == 1.015625);              // A tie: up, to the even neighbour.
  CHECK(roundTo(DType::F16, 1 + 0x1p-11) == 1.0);                   // A tie.
  CHECK(roundTo(DType::F16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10); // By way of f32 it would be a tie, and round down.
  CHECK(roundTo(DType::BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
  CHECK(roundTo(DType::F16, -(1 + 0x1p-11 + 0x1p-40)) == -(1 + 0x1p-10));
  CHECK(roundTo(DType::F16, 0x1p-24) == 0x1p-24); // The smallest subnormal.
  CHECK(roundTo(DType::F16, 0x1p-25) == 0);       // A tie with 0.
  CHECK(roundTo(DType::F16, 0x1p-25 + 0x1p-60) == 0x1p-24);
  CHECK(roundTo(DType::F16, 65519.999) == 65504);
  CHECK(roundTo(DType::F16, 65520) == std::numeric_limits<double>::infinity());
  CHECK(roundTo(DType::BF16, -1e300) == -std::numeric_limits<double>::infinity());
  CHECK(roundTo(DType::F32, 1 + 0x1p-25) == 1);
  CHECK(std::signbit(roundTo(DType::F16, -0.0)));
  CHECK(roundTo(DType::F8E4M3, 1.0625) == 1.0);
  CHECK(roundTo(DType::F8E4M3, 1.0625 + 0x1p-40) == 1.125);
  CHECK(roundTo(DType::F8E4M3, -1e300) == -448);
  CHECK(roundTo(DType::F8E5M2, 1.125 + 0x1p-40) == 1.25);
  CHECK(roundTo(DType::F8E5M2, std::numeric_limits<double>::infinity()) == 57344);
  for (DType type : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2})
    CHECK(std::isnan(roundTo(type, std::numeric_limits<double>::quiet_NaN())));
}

TEST_CASE("tensor: every f16 and bf16 survives the way there and back") {
  for (DType type : {DType::F16, DType::BF16}) {
    HostTensor all = HostTensor::zeros(type, {65536});
    for (int i = 0; i < 65536; ++i)
      reinterpret_cast<std::uint16_t *>(all.bytes.data())[i] = static_cast<std::uint16_t>(i);
    Values values = toValues(all);
    HostTensor back = toTensor(values);
    int changed = 0;
    for (int i = 0; i < 65536; ++i)
      if (!std::isnan(values.real(i)))
        changed += reinterpret_cast<std::uint16_t *>(back.bytes.data())[i] != i;
    CHECK(changed == 0);
  }
}

TEST_CASE("tensor: 64-bit integers are exact") {
  HostTensor tensor = HostTensor::zeros(DType::I64, {1});
  reinterpret_cast<std::int64_t *>(tensor.bytes.data())[0] = 9007199254740993;
  CHECK(toValues(tensor).integer(0) == 9007199254740993);
  CHECK(toTensor(toValues(tensor)) == tensor);
}

TEST_CASE("tensor: noise is seeded and has the moments asked for") {
  HostTensor a = normal(DType::F32, {100000}, 7, 2), b = normal(DType::F32, {100000}, 7, 2),
             c = normal(DType::F32, {100000}, 8, 2);
  CHECK(a == b);
  CHECK(!(a == c));
  std::vector<double> values = toDoubles(a);
  double sum = 0, squares = 0;
  for (double value : values) {
    sum += value;
    squares += value * value;
  }
  CHECK(std::fabs(sum / 100000) < 0.03); // Five standard errors of 2 / sqrt(100000).
  CHECK(std::sqrt(squares / 100000) == doctest::Approx(2).epsilon(0.02));

  std::vector<double> even = toDoubles(uniform(DType::F32, {10000}, 3, 2, 4));
  CHECK(*std::min_element(even.begin(), even.end()) >= 2);
  CHECK(*std::max_element(even.begin(), even.end()) <= 4);
  std::vector<double> whole = toDoubles(integers(DType::I32, {10000}, 3, -2, 3));
  CHECK(*std::min_element(whole.begin(), whole.end()) == -2);
  CHECK(*std::max_element(whole.begin(), whole.end()) == 2);
}
