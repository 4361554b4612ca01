// Ops that move elements, generators and in-place updates, against what NumPy gives.
#include "EvaluateText.h"

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// 0, 1, 2, ... of a shape.
HostTensor counting(Shape shape) {
  std::vector<double> values(elementCount(shape));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i);
  return reference::tensorOf(DType::F32, std::move(shape), values);
}

HostTensor indices(Shape shape, const std::vector<double> &values) {
  return reference::tensorOf(DType::I64, std::move(shape), values);
}

} // namespace

TEST_CASE("reference: reshape, transpose, broadcast and slice") {
  HostTensor x = counting({2, 3});
  checkClose(reals(evaluateLine("kfuse.reshape %arg0 : (tensor<2x3xf32>) -> tensor<3x1x2xf32>", {x})),
             {0, 1, 2, 3, 4, 5});
  checkClose(reals(evaluateLine(
                 "kfuse.transpose %arg0 {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>", {x})),
             {0, 3, 1, 4, 2, 5});
  checkClose(reals(evaluateLine(
                 "kfuse.transpose %arg0 {permutation = array<i64: 2, 0, 1>} : (tensor<2x2x3xf32>) -> tensor<3x2x2xf32>",
                 {counting({2, 2, 3})})),
             {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  checkClose(reals(evaluateLine("kfuse.broadcast %arg0 : (tensor<2x1xf32>) -> tensor<2x2x3xf32>", {counting({2, 1})})),
             {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  checkClose(reals(evaluateLine(
                 "kfuse.slice %arg0 {offsets = array<i64: 1, 2>, strides = array<i64: 1, -2>} : (tensor<2x3xf32>) -> "
                 "tensor<1x2xf32>",
                 {x})),
             {5, 3});
}

TEST_CASE("reference: concat") {
  HostTensor x = counting({2, 2}), y = counting({2, 1});
  checkClose(
      reals(evaluateLine("kfuse.concat %arg0, %arg1, %arg0 {axis = 1 : i64} : (tensor<2x2xf32>, tensor<2x1xf32>, "
                         "tensor<2x2xf32>) -> tensor<2x5xf32>",
                         {x, y})),
      {0, 1, 0, 0, 1, 2, 3, 1, 2, 3});
  checkClose(reals(evaluateLine(
                 "kfuse.concat %arg0, %arg1 {axis = 0 : i64} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>",
                 {counting({1, 2}), x})),
             {0, 1, 0, 1, 2, 3});
}

TEST_CASE("reference: rows and keys of one sequence") {
  const HostTensor rows = indices({3}, {0, 2, 3}), keys = indices({3}, {0, 3, 4});
  auto sees = [&](const std::string &attributes) {
    const auto seen = integers(evaluateLine("kfuse.same_sequence %arg0, %arg1 " + attributes +
                                                " : (tensor<3xi64>, tensor<3xi64>) -> tensor<4x5xi1>",
                                            {rows, keys}));
    return std::vector<double>(seen.begin(), seen.end());
  };
  checkClose(sees(""), {1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0});
  checkClose(sees("{causal}"), {1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("reference: windows are 0 past the operand's edges") {
  // 0..4 with one element of padding: windows of two elements two apart, at every second position.
  checkClose(reals(evaluateLine("kfuse.window %arg0 {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = "
                                "array<i64: 2>, pads = array<i64: 1>} : (tensor<5xf32>) -> tensor<2x3xf32>",
                                {counting({5})})),
             {0, 1, 3, 1, 3, 0});
  // Two channels of 2 x 3, windows of 2 x 2 at 1 x 2 positions, no padding.
  checkClose(reals(evaluateLine("kfuse.window %arg0 {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations "
                                "= array<i64: 1, 1>, pads = array<i64: 0, 0>} : (tensor<2x2x3xf32>) -> "
                                "tensor<2x2x2x1x2xf32>",
                                {counting({2, 2, 3})})),
             {0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11});
}

TEST_CASE("reference: gather counts negative indices from the end and clamps") {
  HostTensor data = counting({3, 2});
  checkClose(reals(evaluateLine(
                 "kfuse.gather %arg0, %arg1 {axis = 0 : i64} : (tensor<3x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>",
                 {data, indices({4}, {2, -1, 99, -99})})),
             {4, 5, 4, 5, 4, 5, 0, 1});
  checkClose(reals(evaluateLine(
                 "kfuse.gather %arg0, %arg1 {axis = 1 : i64} : (tensor<3x2xf32>, tensor<1x2xi64>) -> tensor<3x1x2xf32>",
                 {data, indices({1, 2}, {1, 0})})),
             {1, 0, 3, 2, 5, 4});
}

TEST_CASE("reference: iota") {
  CHECK(integers(evaluateLine("kfuse.iota {dim = 0 : i64} : tensor<2x2xi64>", {})) ==
        std::vector<std::int64_t>{0, 0, 1, 1});
  CHECK(integers(evaluateLine("kfuse.iota {dim = 1 : i64} : tensor<2x3xi32>", {})) ==
        std::vector<std::int64_t>{0, 1, 2, 0, 1, 2});
}

TEST_CASE("reference: state update") {
  HostTensor state = counting({2, 3, 2});
  HostTensor value = reference::tensorOf(DType::F32, {2, 1, 2}, {-1, -2, -3, -4});
  auto update = [&](const HostTensor &position) {
    return reals(evaluateLine(
        "kfuse.state_update %arg0, %arg1, %arg2 {axis = 1 : i64} : (tensor<2x3x2xf32>, tensor<2x1x2xf32>, " +
            typeText(position) + ") -> tensor<2x3x2xf32>",
        {state, value, position}));
  };
  checkClose(update(indices({}, {1})), {0, 1, -1, -2, 4, 5, 6, 7, -3, -4, 10, 11});
  checkClose(update(indices({2}, {0, 2})), {-1, -2, 2, 3, 4, 5, 6, 7, 8, 9, -3, -4});
  // Positions outside [0, S - n] write nothing.
  checkClose(update(indices({2}, {-1, 3})), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("reference: constants, splats written out and booleans unpacked") {
  checkClose(reals(evaluateLine("kfuse.constant dense<1.5> : tensor<3xf32>", {})), {1.5, 1.5, 1.5});
  checkClose(reals(evaluateLine("kfuse.constant dense<[1.0, -2.0]> : tensor<2xbf16>", {})), {1, -2});
  CHECK(integers(evaluateLine("kfuse.constant dense<[true, false, true]> : tensor<3xi1>", {})) ==
        std::vector<std::int64_t>{1, 0, 1});
  CHECK(integers(evaluateLine("kfuse.constant dense<9007199254740993> : tensor<1xi64>", {})) ==
        std::vector<std::int64_t>{9007199254740993});
}
