#include "kfuse/types.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

using namespace kfuse;

TEST_CASE("types: names, widths and kinds") {
  struct {
    DType type;
    const char *name;
    std::size_t bytes;
    bool isFloat;
  } rows[] = {{DType::F32, "f32", 4, true},         {DType::F16, "f16", 2, true},       {DType::BF16, "bf16", 2, true},
              {DType::I32, "i32", 4, false},        {DType::I64, "i64", 8, false},      {DType::Bool, "bool", 1, false},
              {DType::F8E4M3, "f8E4M3FN", 1, true}, {DType::F8E5M2, "f8E5M2", 1, true}, {DType::I8, "i8", 1, false},
              {DType::U8, "u8", 1, false},          {DType::I4, "i4", 1, false},        {DType::U4, "u4", 1, false}};
  for (const auto &row : rows) {
    CAPTURE(row.name);
    CHECK(std::string(toString(row.type)) == row.name);
    CHECK((parseDType(row.name) == row.type));
    CHECK(byteWidth(row.type) == row.bytes);
    CHECK(isFloat(row.type) == row.isFloat);
    CHECK(isFloat8(row.type) == (row.isFloat && row.bytes == 1));
  }
  CHECK(!parseDType("f64"));
  CHECK(!parseDType(""));
}

TEST_CASE("types: shapes") {
  CHECK(toString(Shape{2, 3, 4}) == "2x3x4");
  CHECK(toString(Shape{}) == "scalar");
  CHECK(elementCount({2, 3, 4}) == 24);
  CHECK(elementCount({}) == 1);
  CHECK(elementCount({2, 0}) == 0);
  CHECK(TensorDesc{"x", DType::BF16, {2, 3}}.bytes() == 12);
}

TEST_CASE("types: rows of 4-bit integers are whole bytes") {
  for (DType type : {DType::I4, DType::U4}) {
    CAPTURE(toString(type));
    CHECK(isPacked(type));
    CHECK(byteSize(type, {2, 3}) == 4);
    CHECK(byteSize(type, {3, 4}) == 6);
    CHECK(byteSize(type, {}) == 1);
    CHECK(byteSize(type, {5, 0}) == 0);
    CHECK(TensorDesc{"w", type, {4096, 4096}}.bytes() == std::size_t{4096} * 2048);
  }
  CHECK(packedShape({7, 5}) == Shape{7, 3});
  CHECK(byteSize(DType::U8, {2, 3}) == 6);
  CHECK_FALSE(isPacked(DType::I8));
}

TEST_CASE("types: counts and bytes that no integer holds") {
  constexpr std::int64_t large = std::int64_t{1} << 62;
  CHECK(elementCount({large, large}) == INT64_MAX);
  CHECK(elementCount({large, large, 0}) == 0);
  CHECK(elementCount({-3, 2}) == 0);
  CHECK(TensorDesc{"x", DType::F32, {large, 8}}.bytes() == SIZE_MAX);
}

TEST_CASE("types: numbers that an element can be given as") {
  CHECK(holds(DType::F16, 1e10)); // Rounded, to infinity.
  CHECK(holds(DType::F32, NAN));
  for (DType type : {DType::I32, DType::I64, DType::Bool}) {
    CAPTURE(toString(type));
    CHECK(holds(type, 0));
    CHECK(holds(type, 1));
    for (double none : {double(NAN), double(INFINITY), -double(INFINITY), 0.5, 0x1p63, -0x1.8p63})
      CHECK_FALSE(holds(type, none));
  }
  struct {
    DType type;
    double lowest, largest;
  } small[] = {{DType::I8, -128, 127}, {DType::U8, 0, 255}, {DType::I4, -8, 7}, {DType::U4, 0, 15}};
  for (const auto &row : small) {
    CAPTURE(toString(row.type));
    CHECK(holds(row.type, row.lowest));
    CHECK(holds(row.type, row.largest));
    for (double none : {row.lowest - 1, row.largest + 1, 0.5, double(NAN)})
      CHECK_FALSE(holds(row.type, none));
  }
  CHECK(holds(DType::I64, -0x1p63));
  CHECK(holds(DType::I32, -0x1p31));
  CHECK_FALSE(holds(DType::I32, 0x1p31));
  CHECK_FALSE(holds(DType::Bool, 2));
  CHECK_FALSE(holds(DType::Bool, -1));
}
