// The evaluator as a whole: every op has a row, whole and sampled values agree, errors are errors.
#include "EvaluateText.h"

#include "ir/reference/Attributes.h"

#include <numeric>

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// Values of a block computed whole, and element by element in a scattered order.
void checkSampledEqualsWhole(mlir::Block &body, const std::vector<HostTensor> &arguments, Mode mode) {
  auto whole = reference::evaluate(body, arguments, mode);
  REQUIRE_MESSAGE(whole, whole.error().message);
  for (unsigned result = 0; result < whole->size(); ++result) {
    const Values &values = (*whole)[result];
    std::vector<std::int64_t> offsets;
    for (std::int64_t i = 0; i < values.size(); ++i)
      offsets.push_back(i * 7919 % values.size());
    auto sampled = reference::evaluateAt(body, arguments, result, offsets, mode);
    REQUIRE_MESSAGE(sampled, sampled.error().message);
    // Sums may be taken in another order.
    double tolerance = mode == Mode::Exact ? 1e-13 : 1e-2;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      CAPTURE(result);
      CAPTURE(offsets[i]);
      if (isFloat(values.type))
        CHECK(std::fabs(sampled->real(i) - values.real(offsets[i])) <=
              tolerance * (1 + std::fabs(values.real(offsets[i]))));
      else
        CHECK(sampled->integer(i) == values.integer(offsets[i]));
    }
  }
}

const char *decoderText = R"(
func.func @f(%x: tensor<2x5x8xbf16>, %w: tensor<8xbf16>, %q: tensor<8x8xbf16>, %cos: tensor<5x2xbf16>, %sin: tensor<5x2xbf16>,
             %cache: tensor<2x9x8xbf16>, %position: tensor<i64>, %table: tensor<11x8xbf16>, %ids: tensor<2x5xi64>)
    -> (tensor<2x5x8xbf16>, tensor<2x9x8xbf16>, tensor<2x5xf32>, tensor<2x5x8xi1>) {
  %embedded = kfuse.gather %table, %ids {axis = 0 : i64} : (tensor<11x8xbf16>, tensor<2x5xi64>) -> tensor<2x5x8xbf16>
  %sum = kfuse.add %x, %embedded : (tensor<2x5x8xbf16>, tensor<2x5x8xbf16>) -> tensor<2x5x8xbf16>
  %norm = kfuse.fused %sum, %w : (tensor<2x5x8xbf16>, tensor<8xbf16>) -> tensor<2x5x8xbf16> {
  ^bb0(%a: tensor<2x5x8xbf16>, %b: tensor<8xbf16>):
    %n = kfuse.rms_norm %a, %b {epsilon = 1.000000e-05 : f32} : (tensor<2x5x8xbf16>, tensor<8xbf16>) -> tensor<2x5x8xbf16>
    kfuse.yield %n : tensor<2x5x8xbf16>
  }
  %projected = kfuse.matmul %norm, %q {transpose_b} : (tensor<2x5x8xbf16>, tensor<8x8xbf16>) -> tensor<2x5x8xbf16>
  %heads = kfuse.reshape %projected : (tensor<2x5x8xbf16>) -> tensor<2x5x2x4xbf16>
  %byHead = kfuse.transpose %heads {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x4xbf16>) -> tensor<2x2x5x4xbf16>
  %turned = kfuse.rotary %byHead, %cos, %sin : (tensor<2x2x5x4xbf16>, tensor<5x2xbf16>, tensor<5x2xbf16>) -> tensor<2x2x5x4xbf16>
  %mixed = kfuse.attention %turned : (tensor<2x2x5x4xbf16>) -> tensor<2x2x5x4xbf16> {
  ^bb0(%k: tensor<2x2x5x4xbf16>):
    %scores = kfuse.matmul %k, %k {transpose_b} : (tensor<2x2x5x4xbf16>, tensor<2x2x5x4xbf16>) -> tensor<2x2x5x5xbf16>
    %weights = kfuse.softmax %scores : (tensor<2x2x5x5xbf16>) -> tensor<2x2x5x5xbf16>
    %values = kfuse.matmul %weights, %k : (tensor<2x2x5x5xbf16>, tensor<2x2x5x4xbf16>) -> tensor<2x2x5x4xbf16>
    kfuse.yield %values : tensor<2x2x5x4xbf16>
  }
  %back = kfuse.transpose %mixed {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xbf16>) -> tensor<2x5x2x4xbf16>
  %joined = kfuse.reshape %back : (tensor<2x5x2x4xbf16>) -> tensor<2x5x8xbf16>
  %updated = kfuse.state_update %cache, %joined, %position {axis = 1 : i64} : (tensor<2x9x8xbf16>, tensor<2x5x8xbf16>, tensor<i64>) -> tensor<2x9x8xbf16>
  %wide = kfuse.cast %joined : (tensor<2x5x8xbf16>) -> tensor<2x5x8xf32>
  %mean = kfuse.reduce %wide {axes = array<i64: 2>, function = "mean"} : (tensor<2x5x8xf32>) -> tensor<2x5xf32>
  %zero = kfuse.constant dense<0.0> : tensor<1xbf16>
  %positive = kfuse.gt %joined, %zero : (tensor<2x5x8xbf16>, tensor<1xbf16>) -> tensor<2x5x8xi1>
  return %joined, %updated, %mean, %positive : tensor<2x5x8xbf16>, tensor<2x9x8xbf16>, tensor<2x5xf32>, tensor<2x5x8xi1>
})";

std::vector<HostTensor> randomArguments(mlir::Block &body) {
  std::vector<HostTensor> arguments;
  for (mlir::Value argument : body.getArguments()) {
    DType type = ir::dtypeOf(argument.getType());
    std::uint64_t seed = arguments.size() + 1;
    arguments.push_back(isFloat(type) ? reference::normal(type, ir::shapeOf(argument), seed)
                                      : reference::integers(type, ir::shapeOf(argument), seed, 0, 4));
  }
  return arguments;
}

} // namespace

TEST_CASE("Sampled products in a row read each row once, however many follow") {
  // Rows of more elements than a pointwise op takes at a time: reading a row again for each piece would double the work
  // with every product, to minutes.
  constexpr int products = 12;
  const std::string type = "tensor<3x600xf32>", weight = "tensor<600x600xf32>";
  std::string text = "func.func @f(%x: " + type + ", %w: " + weight + ") -> " + type + " {\n", value = "%x";
  for (int i = 0; i < products; ++i) {
    const std::string n = std::to_string(i);
    text += "%p" + n + " = kfuse.matmul " + value + ", %w : (" + type + ", " + weight + ") -> " + type + "\n%r" + n +
            " = kfuse.relu %p" + n + " : (" + type + ") -> " + type + "\n";
    value = "%r" + n;
  }
  ParsedModule parsed(text + "return " + value + " : " + type + "\n}");
  const std::vector<HostTensor> arguments{reference::uniform(DType::F32, {3, 600}, 1),
                                          reference::uniform(DType::F32, {600, 600}, 2)};
  auto whole = reference::evaluate(parsed.body(), arguments, Mode::Exact);
  REQUIRE_MESSAGE(whole, whole.error().message);
  const std::vector<std::int64_t> offsets{1799, 0, 1, 2, 598, 599, 600, 601, 1201};
  auto sampled = reference::evaluateAt(parsed.body(), arguments, 0, offsets, Mode::Exact);
  REQUIRE_MESSAGE(sampled, sampled.error().message);
  for (std::size_t i = 0; i < offsets.size(); ++i)
    CHECK(sampled->real(i) == doctest::Approx((*whole)[0].real(offsets[i])));
}

TEST_CASE("reference: an argument that repeats itself may be given as its first elements") {
  ParsedModule parsed(R"(
func.func @f(%x: tensor<30x41xf32>, %y: tensor<41x30xf32>) -> (tensor<30x30xf32>, tensor<41x30xf32>) {
  %0 = kfuse.matmul %x, %y : (tensor<30x41xf32>, tensor<41x30xf32>) -> tensor<30x30xf32>
  %1 = kfuse.transpose %x {permutation = array<i64: 1, 0>} : (tensor<30x41xf32>) -> tensor<41x30xf32>
  return %0, %1 : tensor<30x30xf32>, tensor<41x30xf32>
})");
  constexpr std::size_t piece = 7 * sizeof(float);
  HostTensor x = reference::uniform(DType::F32, {30, 41}, 1);
  for (std::size_t i = piece; i < x.bytes.size(); ++i)
    x.bytes[i] = x.bytes[i - piece];
  HostTensor first = x;
  first.bytes.resize(piece);
  const HostTensor y = reference::uniform(DType::F32, {41, 30}, 2);
  std::vector<std::int64_t> offsets(900);
  std::iota(offsets.begin(), offsets.end(), 0);
  for (unsigned result : {0, 1}) {
    auto whole = reference::evaluateAt(parsed.body(), std::vector{x, y}, result, offsets, Mode::Exact);
    auto repeated = reference::evaluateAt(parsed.body(), std::vector{first, y}, result, offsets, Mode::Exact);
    REQUIRE((whole && repeated));
    for (std::size_t i = 0; i < offsets.size(); ++i)
      CHECK(repeated->real(i) == whole->real(i));
  }
  first.bytes.pop_back(); // Half an element.
  CHECK_FALSE(reference::evaluateAt(parsed.body(), std::vector{first, y}, 0, offsets, Mode::Exact));
}

TEST_CASE("reference: every fusable op of the dialect has a row") {
  IrContext ir;
  int ops = 0;
  for (mlir::RegisteredOperationName name : ir.context.getRegisteredOperations())
    // Regions are evaluated by their bodies, constants by their attribute.
    if (name.getDialectNamespace() == "kfuse" && name.hasInterface<ir::FusableOpInterface>() &&
        !name.hasTrait<mlir::OpTrait::ConstantLike>()) {
      ++ops;
      CHECK_MESSAGE(reference::hasReference(name.getStringRef().str()),
                    "no reference row for " << name.getStringRef().str());
    }
  CHECK(ops > 45);
  CHECK(!reference::hasReference("kfuse.no_such_op"));
  CHECK(!reference::hasReference("arith.addf"));
}

TEST_CASE("reference: a decoder's ops, whole and sampled") {
  ParsedModule parsed(decoderText);
  std::vector<HostTensor> arguments = randomArguments(parsed.body());
  checkSampledEqualsWhole(parsed.body(), arguments, Mode::Exact);
  checkSampledEqualsWhole(parsed.body(), arguments, Mode::RoundEachOp);
}

TEST_CASE("reference: rounding each op loses what bf16 loses, and no more") {
  ParsedModule parsed(decoderText);
  std::vector<HostTensor> arguments = randomArguments(parsed.body());
  auto exact = reference::evaluate(parsed.body(), arguments, Mode::Exact);
  auto rounded = reference::evaluate(parsed.body(), arguments, Mode::RoundEachOp);
  REQUIRE(exact);
  REQUIRE(rounded);
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < (*exact)[0].size(); ++i) {
    double a = (*exact)[0].real(i), b = (*rounded)[0].real(i);
    CHECK(b == reference::roundTo(DType::BF16, b));
    difference += (a - b) * (a - b);
    norm += a * a;
  }
  CHECK(std::sqrt(difference / norm) > 1e-3);
  CHECK(std::sqrt(difference / norm) < 5e-2);
}

TEST_CASE("reference: operands read along columns, with steps and backwards") {
  // The product reads its right side down the columns of a slice of a broadcast sum.
  ParsedModule parsed(R"(
func.func @f(%a: tensor<6x10xf32>, %b: tensor<20x1xf32>, %c: tensor<30xf32>) -> tensor<6x10xf32> {
  %sum = kfuse.add %b, %c : (tensor<20x1xf32>, tensor<30xf32>) -> tensor<20x30xf32>
  %cut = kfuse.slice %sum {offsets = array<i64: 19, 2>, strides = array<i64: -2, 3>} : (tensor<20x30xf32>) -> tensor<10x10xf32>
  %exp = kfuse.tanh %cut : (tensor<10x10xf32>) -> tensor<10x10xf32>
  %soft = kfuse.softmax %exp : (tensor<10x10xf32>) -> tensor<10x10xf32>
  %both = kfuse.concat %soft, %exp {axis = 1 : i64} : (tensor<10x10xf32>, tensor<10x10xf32>) -> tensor<10x20xf32>
  %half = kfuse.slice %both {offsets = array<i64: 0, 5>, strides = array<i64: 1, 1>} : (tensor<10x20xf32>) -> tensor<10x10xf32>
  %r = kfuse.matmul %a, %half : (tensor<6x10xf32>, tensor<10x10xf32>) -> tensor<6x10xf32>
  return %r : tensor<6x10xf32>
})");
  checkSampledEqualsWhole(parsed.body(), randomArguments(parsed.body()), Mode::Exact);
}

TEST_CASE("reference: one op of host tensors, for constant folding") {
  ParsedModule parsed(functionText("kfuse.add %arg0, %arg1 : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>",
                                   {HostTensor::zeros(DType::I64, {2}), HostTensor::zeros(DType::I64, {2})}));
  std::vector<HostTensor> operands{reference::tensorOf(DType::I64, {2}, {1, 2}),
                                   reference::tensorOf(DType::I64, {2}, {10, 20})};
  auto sum = reference::evaluateOp(&parsed.body().front(), operands);
  REQUIRE(sum);
  CHECK(*sum == reference::tensorOf(DType::I64, {2}, {11, 22}));
}

TEST_CASE("reference: constants become tensors and back") {
  IrContext ir;
  for (DType type : {DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64, DType::Bool})
    for (bool isSplat : {false, true}) {
      HostTensor tensor =
          reference::tensorOf(type, {3}, isSplat ? std::vector<double>{1, 1, 1} : std::vector<double>{1, 0, 1});
      mlir::DenseElementsAttr attribute = reference::attributeOf(tensor, &ir.context);
      CHECK(attribute.isSplat() == isSplat);
      auto back = reference::tensorOf(attribute);
      REQUIRE(back);
      CHECK(*back == tensor);
    }
}

TEST_CASE("reference: what cannot be evaluated is an error") {
  ParsedModule parsed(
      functionText("kfuse.relu %arg0 : (tensor<2xf32>) -> tensor<2xf32>", {HostTensor::zeros(DType::F32, {2})}));
  auto evaluated = [&](std::vector<HostTensor> arguments) {
    auto result = reference::evaluate(parsed.body(), arguments, Mode::Exact);
    REQUIRE(!result);
    return result.error();
  };
  CHECK(evaluated({}).message == "got 0 tensors, expected 1");
  CHECK(evaluated({HostTensor::zeros(DType::F32, {3})}).message == "tensor 0 is 3 f32 of 12 bytes, expected 2 f32");
  HostTensor truncated = HostTensor::zeros(DType::F32, {2});
  truncated.bytes.resize(4);
  CHECK(evaluated({truncated}).message == "tensor 0 is 2 f32 of 4 bytes, expected 2 f32");
  std::vector<HostTensor> fits{HostTensor::zeros(DType::F32, {2})};
  auto beyond = reference::evaluateAt(parsed.body(), fits, 1, {}, Mode::Exact);
  REQUIRE(!beyond);
  CHECK(beyond.error().message == "result 1 of a block of 1");

  ParsedModule elided(R"(func.func @f() -> tensor<4xf32> {
  %c = kfuse.constant dense_resource<__elided__> : tensor<4xf32>
  return %c : tensor<4xf32>
})");
  auto missing = reference::evaluate(elided.body(), {}, Mode::Exact);
  REQUIRE(!missing);
  CHECK(missing.error().code == ErrorCode::BadModel);
  CHECK(missing.error().message ==
        "a constant of 16 bytes holds 0 bytes of data; was it elided when the text was printed?");

  ParsedModule foreign(R"(func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = func.call @g(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
func.func private @g(tensor<2xf32>) -> tensor<2xf32>)");
  auto unknown = reference::evaluate(foreign.body(), fits, Mode::Exact);
  REQUIRE(!unknown);
  CHECK(unknown.error().message == "func.call has no reference: the evaluator knows the ops of the kfuse dialect");
}

TEST_CASE("reference: tensors of no elements") {
  HostTensor none = HostTensor::zeros(DType::F32, {0, 3}), some = reference::tensorOf(DType::F32, {1, 3}, {1, 2, 3});
  CHECK(evaluateLine("kfuse.softmax %arg0 : (tensor<0x3xf32>) -> tensor<0x3xf32>", {none}).size() == 0);
  checkClose(reals(evaluateLine(
                 "kfuse.concat %arg0, %arg1 {axis = 0 : i64} : (tensor<0x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>",
                 {none, some})),
             {1, 2, 3});
  checkClose(reals(evaluateLine(
                 "kfuse.reduce %arg0 {axes = array<i64: 0>, function = \"sum\"} : (tensor<0x3xf32>) -> tensor<3xf32>",
                 {none})),
             {0, 0, 0});
  checkClose(
      reals(evaluateLine(
          "kfuse.matmul %arg0, %arg0 {transpose_a} : (tensor<0x3xf32>, tensor<0x3xf32>) -> tensor<3x3xf32>", {none})),
      std::vector<double>(9, 0));
}

TEST_CASE("reference: a product larger than its blocks") {
  for (auto [m, n, k] : {std::tuple(1, 1000, 300), {500, 7, 257}, {385, 385, 513}, {9, 25, 1}}) {
    HostTensor a = reference::integers(DType::F32, {m, k}, 1, -4, 5),
               b = reference::integers(DType::F32, {k, n}, 2, -4, 5);
    std::vector<double> left = reference::toDoubles(a), right = reference::toDoubles(b), expected(m * n);
    for (int i = 0; i < m; ++i)
      for (int p = 0; p < k; ++p)
        for (int j = 0; j < n; ++j)
          expected[i * n + j] += left[i * k + p] * right[p * n + j];
    std::string line = "kfuse.matmul %arg0, %arg1 : (" + typeText(a) + ", " + typeText(b) + ") -> tensor<" +
                       std::to_string(m) + "x" + std::to_string(n) + "xf32>";
    // Small integers: every sum is exact in f32 and in f64.
    CHECK(reals(evaluateLine(line, {a, b}, Mode::Exact)) == expected);
    CHECK(reals(evaluateLine(line, {a, b}, Mode::RoundEachOp)) == expected);
  }
}
