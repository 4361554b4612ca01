// kfuse.dequantize and the small integers it takes: in memory, in the dialect, evaluated and as a scalar form.
#include "EvaluateText.h"

#include "ir/RegionScalars.h"
#include "ir/reference/Attributes.h"
#include "kfuse/graph.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::test;

namespace {

std::vector<int> bytesOf(const HostTensor &tensor) {
  std::vector<int> bytes;
  for (std::byte byte : tensor.bytes)
    bytes.push_back(std::to_integer<int>(byte));
  return bytes;
}

} // namespace

TEST_CASE("4-bit integers: the first is the low half of its byte, and a row ends with its byte") {
  const HostTensor u4 = reference::tensorOf(DType::U4, {2, 3}, {1, 2, 3, 13, 14, 15});
  CHECK(bytesOf(u4) == std::vector<int>{0x21, 0x03, 0xed, 0x0f});
  CHECK(reference::toDoubles(u4) == std::vector<double>{1, 2, 3, 13, 14, 15});
  const HostTensor i4 = reference::tensorOf(DType::I4, {2, 2}, {-8, 7, -1, 0});
  CHECK(bytesOf(i4) == std::vector<int>{0x78, 0x0f});
  CHECK(reference::toDoubles(i4) == std::vector<double>{-8, 7, -1, 0});
  CHECK(reference::toTensor(reference::toValues(u4)) == u4);
}

TEST_CASE("small integers: constants of the dialect keep their numbers") {
  for (DType type : {DType::I8, DType::U8, DType::I4, DType::U4}) {
    CAPTURE(toString(type));
    mlir::MLIRContext context;
    const HostTensor tensor =
        reference::integers(type, {5, 3}, 7, smallInteger(type)->lowest, smallInteger(type)->largest + 1);
    Result<HostTensor> back = reference::tensorOf(reference::attributeOf(tensor, &context));
    REQUIRE_MESSAGE(back, back.error().message);
    CHECK(*back == tensor);
    Result<HostTensor> splat = reference::tensorOf(
        reference::attributeOf(reference::tensorOf(type, {3, 3}, std::vector<double>(9, 5)), &context));
    REQUIRE(splat);
    CHECK(reference::toDoubles(*splat) == std::vector<double>(9, 5));
  }
}

TEST_CASE("dequantize: scales of blocks along any axis, the last of them shorter") {
  const HostTensor q = reference::tensorOf(DType::U4, {2, 5}, {0, 1, 2, 3, 4, 15, 14, 13, 12, 11});
  const HostTensor scales = reference::tensorOf(DType::F32, {2, 3}, {1, 10, 100, -1, 0.5, 2});
  checkClose(reals(evaluateLine("kfuse.dequantize %arg0, %arg1 {blocks = array<i64: 1, 2>} : (tensor<2x5xui4>, "
                                "tensor<2x3xf32>) -> tensor<2x5xf32>",
                                {q, scales})),
             {0, 1, 20, 30, 400, -15, -14, 6.5, 6, 22});
  const HostTensor zeros = reference::tensorOf(DType::U4, {2, 3}, {8, 0, 1, 15, 7, 8});
  checkClose(reals(evaluateLine("kfuse.dequantize %arg0, %arg1, %arg2 {blocks = array<i64: 1, 2>} : (tensor<2x5xui4>, "
                                "tensor<2x3xf32>, tensor<2x3xui4>) -> tensor<2x5xf32>",
                                {q, scales, zeros})),
             {-8, -7, 20, 30, 300, 0, 1, 3, 2.5, 6});
  const HostTensor column = reference::tensorOf(DType::F32, {1, 5}, {1, 2, 3, 4, 5});
  const HostTensor half = reference::tensorOf(DType::F32, {1, 5}, {0.5, 0, 0, 1.5, 0});
  checkClose(reals(evaluateLine("kfuse.dequantize %arg0, %arg1, %arg2 {blocks = array<i64: 2, 1>} : (tensor<2x5xui4>, "
                                "tensor<1x5xf32>, tensor<1x5xf32>) -> tensor<2x5xf32>",
                                {q, column, half})),
             {-0.5, 2, 6, 6, 20, 14.5, 28, 39, 42, 55});
}

TEST_CASE("dequantize: of i8 one scale in all, of i4 the sign") {
  const HostTensor i8 = reference::tensorOf(DType::I8, {3}, {-128, 0, 127});
  const HostTensor scale = reference::tensorOf(DType::F16, {1}, {0.25});
  checkClose(reals(evaluateLine("kfuse.dequantize %arg0, %arg1 {blocks = array<i64: 0>} : (tensor<3xi8>, "
                                "tensor<1xf16>) -> tensor<3xf16>",
                                {i8, scale})),
             {-32, 0, 31.75});
  const HostTensor i4 = reference::tensorOf(DType::I4, {3}, {-8, -1, 7});
  checkClose(reals(evaluateLine("kfuse.dequantize %arg0, %arg1 {blocks = array<i64: 0>} : (tensor<3xi4>, "
                                "tensor<1xf16>) -> tensor<3xf16>",
                                {i4, scale})),
             {-2, -0.25, 1.75});
}

TEST_CASE("small integers: a cast saturates floats and keeps the low bits of integers") {
  const HostTensor reals = reference::tensorOf(DType::F32, {5}, {-1e9, -3.7, 3.7, 200, NAN});
  CHECK(integers(evaluateLine("kfuse.cast %arg0 : (tensor<5xf32>) -> tensor<5xi8>", {reals})) ==
        std::vector<std::int64_t>{-128, -3, 3, 127, 0});
  CHECK(integers(evaluateLine("kfuse.cast %arg0 : (tensor<5xf32>) -> tensor<5xui8>", {reals})) ==
        std::vector<std::int64_t>{0, 0, 3, 200, 0});
  const HostTensor wide = reference::tensorOf(DType::I32, {4}, {-129, 128, 511, -1});
  CHECK(integers(evaluateLine("kfuse.cast %arg0 : (tensor<4xi32>) -> tensor<4xi8>", {wide})) ==
        std::vector<std::int64_t>{127, -128, -1, -1});
  CHECK(integers(evaluateLine("kfuse.cast %arg0 : (tensor<4xi32>) -> tensor<4xui8>", {wide})) ==
        std::vector<std::int64_t>{127, 128, 255, 255});
}

TEST_CASE("dequantize: a region reads q, its scale and its zero at the block's index") {
  ParsedModule parsed("func.func @f(%q: tensor<6x256xui4>, %s: tensor<6x2xf16>, %z: tensor<6x2xui4>) -> "
                      "tensor<6x256xf16> { %r = kfuse.dequantize %q, %s, %z {blocks = array<i64: 1, 128>} : "
                      "(tensor<6x256xui4>, tensor<6x2xf16>, tensor<6x2xui4>) -> tensor<6x256xf16>\n"
                      "return %r : tensor<6x256xf16> }");
  Result<ir::ScalarGraph> graph = ir::scalariseRegion(parsed.body());
  REQUIRE_MESSAGE(graph, graph.error().message);
  CHECK(graph->str() == "domain 6x256\n"
                        "%0: i32 = load 0 (d0, d1) -> (d0, d1)\n"
                        "%1: f32 = load 1 (d0, d1) -> (d0, d1 floordiv 128)\n"
                        "%2: i32 = load 2 (d0, d1) -> (d0, d1 floordiv 128)\n"
                        "%3: f32 = cast %0\n"
                        "%4: f32 = cast %2\n"
                        "%5: f32 = sub %3, %4\n"
                        "%6: f32 = mul %5, %1\n"
                        "store %6 as f16 (d0, d1) -> (d0, d1)\n");
}

TEST_CASE("dequantize: the difference from zeros that are floats has their type") {
  const HostTensor q = reference::tensorOf(DType::U4, {4}, {15, 9, 8, 1}),
                   two = reference::tensorOf(DType::F32, {4}, {2, 2, 2, 2});
  auto dequantized = [&](DType type, const std::string &text) {
    const HostTensor zeros = reference::tensorOf(type, {4}, std::vector<double>(4, 127.0 / 1024));
    return reals(evaluateLine("kfuse.dequantize %arg0, %arg1, %arg2 {blocks = array<i64: 1>} : (tensor<4xui4>, "
                              "tensor<4xf32>, tensor<4x" +
                                  text + ">) -> tensor<4xf32>",
                              {q, two, zeros}));
  };
  CHECK(dequantized(DType::F32, "f32") == std::vector<double>{29.751953125, 17.751953125, 15.751953125, 1.751953125});
  // From 4 on, f16 has no halves of 256ths.
  CHECK(dequantized(DType::F16, "f16") == std::vector<double>{29.75, 17.75, 15.75, 1.751953125});
}

TEST_CASE("dequantize: GraphBuilder") {
  GraphBuilder g;
  Tensor x = g.input("x", DType::BF16, {1, 256}), q = g.parameter("q", DType::U4, {8, 256}),
         s = g.parameter("s", DType::BF16, {8, 2});
  g.output("y", g.matmul(x, g.dequantize(q, s, {}, {1, 128}), {.b = true}));
  Result<Graph> graph = g.build();
  REQUIRE_MESSAGE(graph, graph.error().message);
  CHECK(graph->text().find("kfuse.dequantize %arg1, %arg2 {blocks = array<i64: 1, 128>} : (tensor<8x256xui4>, "
                           "tensor<8x2xbf16>) -> tensor<8x256xbf16>") != std::string::npos);

  GraphBuilder wrong;
  wrong.output("y", wrong.dequantize(wrong.parameter("q", DType::U4, {8, 256}),
                                     wrong.parameter("s", DType::BF16, {8, 3}), {}, {1, 128}));
  CHECK(wrong.build().error().message.find(
            "has 3 scales along dimension 1, but its 256 elements make 2 blocks of 128") != std::string::npos);
}
