#include "tuner/check/OutputCheck.h"

#include "kfuse/half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace kfuse;
using namespace kfuse::tuner;

namespace {

struct Tensor {
  codegen::BufferDesc desc;
  std::vector<std::byte> bytes;
};

template <class T> Tensor tensor(DType type, const std::vector<T> &values) {
  Tensor made{{type, {static_cast<std::int64_t>(values.size())}}, std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

Tensor floats(const std::vector<float> &values) { return tensor(DType::F32, values); }

bool differ(const Tensor &a, const Tensor &b) {
  return findDifference(a.desc, a.bytes, b.bytes, tolerance(a.desc.type)).has_value();
}

} // namespace

TEST_CASE("output check: an element left as poison is found in every type that shows it") {
  for (DType type : {DType::F32, DType::F16, DType::BF16, DType::Bool, DType::F8E4M3, DType::F8E5M2}) {
    codegen::BufferDesc desc{type, {10}};
    std::vector<std::byte> bytes(desc.bytes());
    CHECK_FALSE(findPoison(desc, bytes));
    std::memset(&bytes[7 * byteWidth(type)], poison, byteWidth(type));
    CHECK(findPoison(desc, bytes) == "element 7 of 10 was never written");
  }
  CHECK_FALSE(findPoison({DType::I32, {1}}, std::vector<std::byte>(4, std::byte{poison})));
}

TEST_CASE("output check: computed NaN is not poison") {
  Tensor nan = floats({NAN, -NAN});
  CHECK_FALSE(findPoison(nan.desc, nan.bytes));
}

TEST_CASE("output check: rounding noise agrees, an error above the tolerance does not") {
  std::vector<float> values(1000, 1), close(1000, 1 + 5e-6F), far(1000, 1 + 2e-5F);
  CHECK_FALSE(differ(floats(close), floats(values)));
  CHECK(differ(floats(far), floats(values)));
}

TEST_CASE("output check: products of 8-bit floats may differ by what their sums do") {
  codegen::KernelPlan plan;
  plan.outputs = {{DType::F32, {4}}, {DType::F8E5M2, {4}}, {DType::I32, {4}}};
  CHECK(toleranceOf(plan, 0) == 1e-5);
  plan.inputs = {{DType::F32, {4}}, {DType::F8E4M3, {4}}};
  CHECK(toleranceOf(plan, 0) == 1e-2);
  CHECK(toleranceOf(plan, 1) == tolerance(DType::F8E5M2));
  CHECK(toleranceOf(plan, 2) == 0);
}

TEST_CASE("output check: one wrong element in a million is found") {
  std::vector<std::uint16_t> values(1 << 20, floatToF16(1)), wrong = values;
  wrong[123456] = floatToF16(2);
  Tensor expected = tensor(DType::F16, values), got = tensor(DType::F16, wrong);
  std::optional<Difference> difference = findDifference(got.desc, got.bytes, expected.bytes, tolerance(DType::F16));
  REQUIRE(difference);
  CHECK(difference->message == "differs from the first right candidate by 0.062 near element 123392, 8e-03 is allowed");
  CHECK(difference->first == 123392);
  CHECK(difference->count == 256);
}

TEST_CASE("output check: the elements that differ most are told where the whole is off, too") {
  std::vector<float> values(1000, 1), wrong = values;
  std::fill(wrong.begin() + 900, wrong.end(), 2.0F);
  std::optional<Difference> difference =
      findDifference(floats(wrong).desc, floats(wrong).bytes, floats(values).bytes, tolerance(DType::F32));
  REQUIRE(difference);
  CHECK(difference->message == "differs from the first right candidate by 0.32, 1e-05 is allowed");
  CHECK(difference->first == 768);
  CHECK(difference->count == 232);
}

TEST_CASE("output check: NaN and infinity must be where they were") {
  const float infinity = std::numeric_limits<float>::infinity();
  Tensor expected = floats({1, NAN, infinity, -infinity});
  CHECK_FALSE(differ(expected, expected));
  CHECK(differ(floats({1, 2, infinity, -infinity}), expected));
  CHECK(differ(floats({1, NAN, 3e38F, -infinity}), expected));
  CHECK(differ(floats({1, NAN, infinity, infinity}), expected));
  CHECK(differ(floats({NAN, NAN, infinity, -infinity}), expected));
}

TEST_CASE("output check: zeros agree with zeros only") {
  CHECK_FALSE(differ(floats({0, -0.0F}), floats({0, 0})));
  CHECK(differ(floats({0, 1e-20F}), floats({0, 0})));
}

TEST_CASE("output check: integers agree exactly") {
  CHECK_FALSE(differ(tensor<std::int32_t>(DType::I32, {1, -2}), tensor<std::int32_t>(DType::I32, {1, -2})));
  CHECK(differ(tensor<std::int32_t>(DType::I32, {1000001}), tensor<std::int32_t>(DType::I32, {1000000})));
}
