// The evaluator's row ops and matrix product against values computed with NumPy.
#include "EvaluateText.h"

#include <limits>

using namespace kfuse;
using namespace kfuse::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), NaN = std::numeric_limits<double>::quiet_NaN();

HostTensor f32(Shape shape, const std::vector<double> &values) {
  return reference::tensorOf(DType::F32, std::move(shape), values);
}

const HostTensor rows = f32({2, 3}, {1, 2, 4, -1, 0.5, 0.25}), weight = f32({3}, {1, 2, 0.5}),
                 bias = f32({3}, {0.5, -1, 0});

} // namespace

TEST_CASE("reference: softmax") {
  checkClose(reals(evaluateLine("kfuse.softmax %arg0 : (tensor<2x3xf32>) -> tensor<2x3xf32>", {rows})),
             {0.04201006613406605, 0.11419519938459449, 0.8437947344813395, 0.11145747105020275, 0.4995177298132149,
              0.3890247991365822});
  // A fully masked row is NaN, as frameworks have it; a masked element is 0.
  HostTensor masked = f32({3, 2}, {-infinity, -infinity, 1, -infinity, NaN, 1});
  checkClose(reals(evaluateLine("kfuse.softmax %arg0 : (tensor<3x2xf32>) -> tensor<3x2xf32>", {masked})),
             {NaN, NaN, 1, 0, NaN, NaN});
}

TEST_CASE("reference: layer norm") {
  checkClose(
      reals(evaluateLine(
          "kfuse.layer_norm %arg0, %arg1, %arg2 {epsilon = 0.5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : "
          "(tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
          {rows, weight, bias})),
      {-0.4299811099505544, -1.4649905549752773, 0.5812381937190964, -0.4502552681394961, 0.20941579581390424,
       0.17277368511627203});
  checkClose(
      reals(evaluateLine("kfuse.layer_norm %arg0 {epsilon = 0.5 : f32, operandSegmentSizes = array<i32: 1, 0, 0>} : "
                         "(tensor<2x3xf32>) -> tensor<2x3xf32>",
                         {rows})),
      {-0.9299811099505544, -0.23249527748763868, 1.1624763874381927, -0.9502552681394961, 0.6047078979069521,
       0.34554737023254406});
}

TEST_CASE("reference: rms norm") {
  checkClose(
      reals(evaluateLine("kfuse.rms_norm %arg0, %arg1 {epsilon = 0.5 : f32} : (tensor<2x3xf32>, tensor<3xf32>) -> "
                         "tensor<2x3xf32>",
                         {rows, weight})),
      {0.3651483716701107, 1.4605934866804429, 0.7302967433402214, -1.0327955589886444, 1.0327955589886444,
       0.12909944487358055});
}

TEST_CASE("reference: reduce") {
  std::vector<double> values;
  for (int i = 0; i < 24; ++i)
    values.push_back(i % 2 ? -i : i);
  HostTensor cube = f32({2, 3, 4}, values);
  auto outer = [&](const std::string &function) {
    return reals(evaluateLine("kfuse.reduce %arg0 {axes = array<i64: 0, 2>, function = \"" + function +
                                  "\"} : (tensor<2x3x4xf32>) -> tensor<3xf32>",
                              {cube}));
  };
  auto middle = [&](const std::string &function) {
    return reals(evaluateLine("kfuse.reduce %arg0 {axes = array<i64: 1>, function = \"" + function +
                                  "\"} : (tensor<2x3x4xf32>) -> tensor<2x4xf32>",
                              {cube}));
  };
  checkClose(outer("sum"), {-4, -4, -4});
  checkClose(outer("max"), {14, 18, 22});
  checkClose(outer("min"), {-15, -19, -23});
  checkClose(outer("mean"), {-0.5, -0.5, -0.5});
  checkClose(middle("sum"), {12, -15, 18, -21, 48, -51, 54, -57});
  checkClose(middle("max"), {8, -1, 10, -3, 20, -13, 22, -15});
  checkClose(middle("mean"), {4, -5, 6, -7, 16, -17, 18, -19});

  HostTensor withNan = f32({2, 2}, {NaN, 1, -infinity, 3});
  checkClose(reals(evaluateLine(
                 "kfuse.reduce %arg0 {axes = array<i64: 1>, function = \"max\"} : (tensor<2x2xf32>) -> tensor<2xf32>",
                 {withNan})),
             {NaN, 3});
  HostTensor counts = reference::tensorOf(DType::I64, {3}, {4, -9, 2});
  CHECK(integers(evaluateLine(
            "kfuse.reduce %arg0 {axes = array<i64: 0>, function = \"min\"} : (tensor<3xi64>) -> tensor<i64>",
            {counts})) == std::vector<std::int64_t>{-9});
}

TEST_CASE("reference: rotary embedding") {
  HostTensor x = f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  HostTensor cos = f32({2, 2}, {0.75, 0.5, 0, 1}), sin = f32({2, 2}, {0.5, 0.25, 1, 0});
  std::string types = " : (tensor<2x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>";
  // Pairs (1, 3), (2, 4), then (5, 7), (6, 8).
  std::vector<double> halves{0.75 - 1.5, 1 - 1, 2.25 + 0.5, 2 + 0.5, -7, 6, 5, 8};
  checkClose(reals(evaluateLine("kfuse.rotary %arg0, %arg1, %arg2" + types, {x, cos, sin})), halves);
  // Pairs (1, 2), (3, 4), then (5, 6), (7, 8).
  checkClose(reals(evaluateLine("kfuse.rotary %arg0, %arg1, %arg2 {interleaved}" + types, {x, cos, sin})),
             {0.75 - 1, 1.5 + 0.5, 1.5 - 1, 2 + 0.75, -6, 5, 7, 8});
  // Tables of the full width repeat the halves; one row of them serves both rows of x.
  HostTensor cosRow = f32({1, 4}, {0.75, 0.5, 0.75, 0.5}), sinRow = f32({1, 4}, {0.5, 0.25, 0.5, 0.25});
  checkClose(
      reals(evaluateLine(
          "kfuse.rotary %arg0, %arg1, %arg2 : (tensor<2x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>",
          {x, cosRow, sinRow})),
      {-0.75, 0, 2.75, 2.5, 3.75 - 3.5, 3 - 2, 5.25 + 2.5, 4 + 1.5});
}

TEST_CASE("reference: matmul, its transposes and batches") {
  HostTensor a = f32({2, 3}, {1, 2, -1, 0.5, 0, 3}), b = f32({3, 2}, {2, 1, -1, 0.5, 4, -2});
  HostTensor aT = f32({3, 2}, {1, 0.5, 2, 0, -1, 3}), bT = f32({2, 3}, {2, -1, 4, 1, 0.5, -2});
  std::vector<double> expected{-4, 4, 13, -5.5};
  checkClose(
      reals(evaluateLine("kfuse.matmul %arg0, %arg1 : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>", {a, b})),
      expected);
  checkClose(
      reals(evaluateLine(
          "kfuse.matmul %arg0, %arg1 {transpose_a} : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>", {aT, b})),
      expected);
  checkClose(
      reals(evaluateLine(
          "kfuse.matmul %arg0, %arg1 {transpose_b} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>", {a, bT})),
      expected);
  checkClose(reals(evaluateLine("kfuse.matmul %arg0, %arg1 {transpose_a, transpose_b} : (tensor<3x2xf32>, "
                                "tensor<2x3xf32>) -> tensor<2x2xf32>",
                                {aT, bT})),
             expected);

  // Batches 2x1 and 3 broadcast to 2x3.
  HostTensor left = f32({2, 1, 1, 2}, {1, 2, 3, 4}), right = f32({3, 2, 1}, {1, 1, 1, -1, 0, 2});
  checkClose(
      reals(evaluateLine("kfuse.matmul %arg0, %arg1 : (tensor<2x1x1x2xf32>, tensor<3x2x1xf32>) -> tensor<2x3x1x1xf32>",
                         {left, right})),
      {3, -1, 4, 7, -1, 8});
  HostTensor withInfinity = f32({1, 2}, {infinity, 1}), zero = f32({2, 1}, {0, 1});
  checkClose(reals(evaluateLine("kfuse.matmul %arg0, %arg1 : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>",
                                {withInfinity, zero})),
             {NaN});
}

TEST_CASE("reference: products of 8-bit floats are exact, or summed as tensor cores do") {
  // 256 and then 64 products of 1 / 64: behind the 13 bits that the sum leaves.
  std::vector<double> large(128, 0), small(128, 0);
  large[0] = small[0] = 16;
  for (int k = 32; k < 96; ++k)
    large[k] = small[k] = 0.125;
  for (DType type : {DType::F8E4M3, DType::F8E5M2}) {
    HostTensor a = reference::tensorOf(type, {1, 128}, large), b = reference::tensorOf(type, {1, 128}, small);
    std::string line =
        "kfuse.matmul %arg0, %arg1 {transpose_b} : (" + typeText(a) + ", " + typeText(b) + ") -> tensor<1x1xf32>";
    checkClose(reals(evaluateLine(line, {a, b})), {257});
    checkClose(reals(evaluateLine(line, {a, b}, Mode::RoundEachOp)), {256});
    HostTensor wide = reference::tensorOf(type, {40, 128}, std::vector<double>(40 * 128, 0.5)); // Whole products alike.
    Values whole = evaluateLine("kfuse.matmul %arg0, %arg1 {transpose_b} : (" + typeText(a) + ", " + typeText(wide) +
                                    ") -> tensor<1x40xf32>",
                                {a, wide}, Mode::RoundEachOp);
    CHECK(whole.real(0) == 12);
  }
}

TEST_CASE("reference: tf32 cuts operands behind 10 bits where ops round, and not where they are exact") {
  HostTensor a = f32({1, 2}, {1 + 0x1p-11, 3}), b = f32({2, 1}, {1, 1 - 0x1p-13});
  std::string line = "kfuse.matmul %arg0, %arg1 {tf32} : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>";
  CHECK(evaluateLine(line, {a, b}).real(0) == 4 + 0x1p-11 - 3 * 0x1p-13);
  CHECK(evaluateLine(line, {a, b}, Mode::RoundEachOp).real(0) == 4 - 3 * 0x1p-11);
}
