// Small integers on the CPU: read, cast, dequantised by themselves and as an operand of products.
#include "CpuRegion.h"

using namespace kfuse;
using namespace kfuse::test;
using reference::integers;
using reference::uniform;

namespace {

constexpr DType smallTypes[] = {DType::I8, DType::U8, DType::I4, DType::U4};

HostTensor all(DType type, Shape shape, std::uint64_t seed) {
  return integers(type, std::move(shape), seed, smallInteger(type)->lowest, smallInteger(type)->largest + 1);
}

} // namespace

TEST_CASE("cpu: small integers are cast, and casts saturate or keep the low bits") {
  for (DType type : smallTypes) {
    HostTensor q = all(type, {7, 33}, 1);
    checkRegion("kfuse.cast %arg0 : (" + typeText(q) + ") -> tensor<7x33xf32>", {q});
    checkRegion("kfuse.cast %arg0 : (" + typeText(q) + ") -> tensor<7x33xi32>", {q});
  }
  for (std::string to : {"i8", "ui8"}) {
    HostTensor x = uniform(DType::F32, {5, 67}, 2, -400, 400), i = integers(DType::I32, {5, 67}, 3, -1000, 1000);
    checkRegion("kfuse.cast %arg0 : (tensor<5x67xf32>) -> tensor<5x67x" + to + ">", {x});
    checkRegion("kfuse.cast %arg0 : (tensor<5x67xi32>) -> tensor<5x67x" + to + ">", {i});
  }
}

TEST_CASE("cpu: views of 4-bit integers, whose rows end inside a byte") {
  for (DType type : {DType::I4, DType::U4}) {
    HostTensor q = all(type, {6, 5}, 4);
    const std::string t = elementText(type);
    for (auto [view, shape] :
         {std::pair<std::string, std::string>{"transpose %arg0 {permutation = array<i64: 1, 0>}", "5x6"},
          {"reshape %arg0", "3x10"},
          {"slice %arg0 {offsets = array<i64: 1, 1>, strides = array<i64: 2, 1>}", "3x3"}})
      checkRegion("%0 = kfuse." + view + " : (" + typeText(q) + ") -> tensor<" + shape + "x" + t +
                      ">\nkfuse.cast %0 : (tensor<" + shape + "x" + t + ">) -> tensor<" + shape + "xf32>",
                  {q});
  }
}

TEST_CASE("cpu: dequantised by blocks along any axis") {
  for (DType type : smallTypes)
    for (DType scaleType : {DType::F32, DType::BF16, DType::F16}) {
      HostTensor q = all(type, {6, 70}, 5), rows = uniform(scaleType, {6, 3}, 6),
                 columns = uniform(scaleType, {2, 70}, 7);
      const std::string result = "tensor<6x70x" + elementText(scaleType) + ">";
      for (const HostTensor &zeros : {all(type, {6, 3}, 8), uniform(scaleType, {6, 3}, 9, 0, 15)})
        checkRegion("kfuse.dequantize %arg0, %arg1, %arg2 {blocks = array<i64: 1, 32>} : (" + typeText(q) + ", " +
                        typeText(rows) + ", " + typeText(zeros) + ") -> " + result,
                    {q, rows, zeros});
      checkRegion("kfuse.dequantize %arg0, %arg1 {blocks = array<i64: 4, 1>} : (" + typeText(q) + ", " +
                      typeText(columns) + ") -> " + result,
                  {q, columns});
    }
}

TEST_CASE("cpu: dequantised bit for bit, whatever the type of zeros") {
  for (DType type : smallTypes)
    for (DType scaleType : {DType::F32, DType::BF16, DType::F16})
      for (const HostTensor &zeros :
           {all(type, {6, 3}, 8), uniform(DType::F32, {6, 3}, 9, 0, 15), uniform(DType::F16, {6, 3}, 10, 0, 15),
            uniform(DType::BF16, {6, 3}, 11, 0, 15)}) {
        const std::vector<HostTensor> arguments{all(type, {6, 70}, 5), uniform(scaleType, {6, 3}, 6), zeros};
        CpuRegion region(functionText("kfuse.dequantize %arg0, %arg1, %arg2 {blocks = array<i64: 1, 32>} : (" +
                                          typeText(arguments[0]) + ", " + typeText(arguments[1]) + ", " +
                                          typeText(zeros) + ") -> tensor<6x70x" + elementText(scaleType) + ">",
                                      arguments));
        auto exact = reference::evaluate(region.parsed.body(), arguments, reference::Mode::Exact);
        REQUIRE_MESSAGE(exact, exact.error().message);
        const HostTensor expected = reference::toTensor(exact->front());
        for (const codegen::TileConfig &config : region.candidates())
          CHECK(reference::toDoubles(runPlan(region.plan(config), arguments).front()) ==
                reference::toDoubles(expected));
      }
}

TEST_CASE("cpu: products with dequantised weights") {
  for (DType type : smallTypes)
    for (auto [m, n, k] : {std::array<std::int64_t, 3>{1, 37, 96}, {5, 64, 70}, {33, 50, 128}}) {
      const std::int64_t blocks = (k + 31) / 32;
      HostTensor x = uniform(DType::F32, {m, k}, 10), q = all(type, {n, k}, 11),
                 s = uniform(DType::F32, {n, blocks}, 12), z = all(type, {n, blocks}, 13);
      const std::string w = "tensor<" + std::to_string(n) + "x" + std::to_string(k) + "xf32>",
                        y = "tensor<" + std::to_string(m) + "x" + std::to_string(n) + "xf32>";
      checkRegion("%0 = kfuse.dequantize %arg1, %arg2, %arg3 {blocks = array<i64: 1, 32>} : (" + typeText(q) + ", " +
                      typeText(s) + ", " + typeText(z) + ") -> " + w + "\nkfuse.matmul %arg0, %0 {transpose_b} : (" +
                      typeText(x) + ", " + w + ") -> " + y,
                  {x, q, s, z});
    }
}
