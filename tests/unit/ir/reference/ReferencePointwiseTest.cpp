// The evaluator's scalar functions against values computed with NumPy and Python's math.
#include "EvaluateText.h"

#include <limits>

using namespace kfuse;
using namespace kfuse::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), NaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max(),
                       lowest = std::numeric_limits<std::int64_t>::min();

struct RealCase {
  const char *op;
  std::vector<std::vector<double>> operands;
  std::vector<double> expected;
};

HostTensor f32(const std::vector<double> &values) {
  return reference::tensorOf(DType::F32, {static_cast<std::int64_t>(values.size())}, values);
}

HostTensor i64(const std::vector<std::int64_t> &values) {
  HostTensor tensor = HostTensor::zeros(DType::I64, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), reinterpret_cast<std::int64_t *>(tensor.bytes.data()));
  return tensor;
}

HostTensor booleans(const std::vector<double> &values) {
  return reference::tensorOf(DType::Bool, {static_cast<std::int64_t>(values.size())}, values);
}

// Exact in f32, so that storing the operands loses nothing.
const std::vector<double> x{-2.5, -0.5, 0.0, 0.25, 3.0}, positive{0.25, 1.0, 2.0, 9.0, 0.0009765625};
const std::vector<double> a{-5.5, 5.5, 2.0, -3.0, 0.5}, b{2.0, -2.0, 3.0, -3.0, 0.25};

const std::vector<RealCase> realCases{
    {"relu", {x}, {0, 0, 0, 0.25, 3}},
    {"gelu", {x}, {-0.015524163314440398, -0.15426876936299344, 0, 0.14967658142073093, 2.99595030590511}},
    {"gelu_tanh", {x}, {-0.015084266089998577, -0.15428599017485606, 0, 0.149675350701685, 2.996362607918227}},
    {"silu", {x}, {-0.18964545005310887, -0.1887703343990727, 0, 0.14054412522144952, 2.8577223804672998}},
    {"sigmoid", {x}, {0.07585818002124355, 0.3775406687981454, 0.5, 0.5621765008857981, 0.9525741268224334}},
    {"tanh", {x}, {-0.9866142981514303, -0.46211715726000974, 0, 0.24491866240370913, 0.9950547536867305}},
    {"erf", {x}, {-0.999593047982555, -0.5204998778130465, 0, 0.2763263901682369, 0.9999779095030014}},
    {"exp", {x}, {0.0820849986238988, 0.6065306597126334, 1, 1.2840254166877414, 20.085536923187668}},
    {"sin", {x}, {-0.5984721441039565, -0.479425538604203, 0, 0.24740395925452294, 0.1411200080598672}},
    {"cos", {x}, {-0.8011436155469337, 0.8775825618903728, 1, 0.9689124217106447, -0.9899924966004454}},
    {"atan", {x}, {-1.1902899496825317, -0.4636476090008061, 0, 0.24497866312686414, 1.2490457723982544}},
    {"atan", {{infinity, -infinity, NaN}}, {1.5707963267948966, -1.5707963267948966, NaN}},
    {"round", {x}, {-2, 0, 0, 0, 3}},
    {"round", {{0.5, 1.5, 2.5, -1.75, infinity, NaN}}, {0, 2, 2, -2, infinity, NaN}},
    {"floor", {x}, {-3, -1, 0, 0, 3}},
    {"neg", {x}, {2.5, 0.5, 0, -0.25, -3}},
    {"abs", {x}, {2.5, 0.5, 0, 0.25, 3}},
    {"expm1", {x}, {-0.9179150013761012, -0.3934693402873666, 0, 0.2840254166877415, 19.085536923187668}},
    {"expm1", {{1e-20, -1e-20, -infinity, infinity}}, {1e-20, -1e-20, -1, infinity}},
    {"log1p",
     {positive},
     {0.22314355131420976, 0.6931471805599453, 1.0986122886681098, 2.302585092994046, 0.0009760859730554589}},
    {"log1p", {{1e-20, -1e-20, -1, -2, infinity}}, {1e-20, -1e-20, -infinity, NaN, infinity}},
    {"rem", {a, b}, {-1.5, 1.5, 2, 0, 0}},
    {"rem", {{infinity, 1, -1, 5, NaN}, {infinity, infinity, -infinity, 0, 1}}, {NaN, 1, -1, NaN, NaN}},
    {"mod", {{infinity, 1, -1, 5, -4}, {infinity, infinity, infinity, 0, 2}}, {NaN, 1, infinity, NaN, 0}},
    {"log", {positive}, {-1.3862943611198906, 0, 0.6931471805599453, 2.1972245773362196, -6.931471805599453}},
    {"sqrt", {positive}, {0.5, 1, 1.4142135623730951, 3, 0.03125}},
    {"rsqrt", {positive}, {2, 1, 0.7071067811865475, 0.3333333333333333, 32}},
    {"reciprocal", {positive}, {4, 1, 0.5, 0.1111111111111111, 1024}},
    {"add", {a, b}, {-3.5, 3.5, 5, -6, 0.75}},
    {"sub", {a, b}, {-7.5, 7.5, -1, 0, 0.25}},
    {"mul", {a, b}, {-11, -11, 6, 9, 0.125}},
    {"div", {a, b}, {-2.75, -2.75, 0.6666666666666666, 1, 2}},
    {"max", {a, b}, {2, 5.5, 3, -3, 0.5}},
    {"min", {a, b}, {-5.5, -2, 2, -3, 0.25}},
    {"mod", {a, b}, {0.5, -0.5, 2, 0, 0}},
    {"pow", {{2, 0.5, 9, -2, 1.5}, {3, -2, 0.5, 3, 2.5}}, {8, 4, 3, -8, 2.7556759606310752}},
    // Infinity and NaN, as IEEE and the frameworks have them.
    {"relu", {{NaN, infinity, -infinity}}, {NaN, infinity, 0}},
    {"max", {{NaN, 1, infinity}, {1, NaN, 2}}, {NaN, NaN, infinity}},
    {"min", {{NaN, 1, infinity}, {1, NaN, 2}}, {NaN, NaN, 2}},
    {"exp", {{-infinity, infinity, NaN}}, {0, infinity, NaN}},
    {"silu", {{infinity, -infinity, -1024}}, {infinity, NaN, 0}},
    {"sigmoid", {{-infinity, infinity}}, {0, 1}},
    {"gelu", {{infinity, -infinity, -64}}, {infinity, NaN, 0}},
    {"log", {{0, -1}}, {-infinity, NaN}},
    {"reciprocal", {{0, infinity}}, {infinity, 0}},
    {"div", {{0, 1, -1}, {0, 0, 0}}, {NaN, infinity, -infinity}},
    {"sub", {{infinity}, {infinity}}, {NaN}},
};

struct IntegerCase {
  const char *op;
  std::vector<std::vector<std::int64_t>> operands;
  std::vector<std::int64_t> expected;
};

const std::vector<IntegerCase> integerCases{
    {"div", {{-7, 7, 7, -7, 9}, {2, 2, -2, -2, 3}}, {-3, 3, -3, 3, 3}},
    {"mod", {{-7, 7, 7, -7, 9}, {2, 2, -2, -2, 3}}, {1, 1, -1, -1, 0}},
    {"div", {{5, lowest}, {0, -1}}, {0, lowest}},
    {"rem", {{-7, 7, 7, -7, 9}, {2, 2, -2, -2, 3}}, {-1, 1, 1, -1, 0}},
    {"rem", {{5, lowest, lowest}, {0, -1, 3}}, {0, 0, -2}},
    {"mod", {{5, lowest}, {0, -1}}, {0, 0}},
    // 2^53 + 1 is no f64.
    {"add", {{9007199254740992, highest, lowest}, {1, 1, -1}}, {9007199254740993, lowest, highest}},
    {"sub", {{9007199254740993, lowest, highest}, {1, 1, -1}}, {9007199254740992, highest, lowest}},
    {"mul",
     {{3037000500, -3037000500, 3}, {3037000500, 3037000500, -4}},
     {-9223372036709301616, 9223372036709301616, -12}},
    {"max", {{highest, -3}, {4, -2}}, {highest, -2}},
    {"min", {{highest, -3}, {4, -2}}, {4, -3}},
    {"neg", {{lowest, 7}}, {lowest, -7}},
    {"abs", {{lowest, -7}}, {lowest, 7}},
    {"relu", {{-7, 7}}, {0, 7}},
};

} // namespace

TEST_CASE("reference: pointwise float functions") {
  for (const RealCase &test : realCases) {
    CAPTURE(test.op);
    std::vector<HostTensor> operands;
    for (const auto &operand : test.operands)
      operands.push_back(f32(operand));
    checkClose(reals(evaluatePointwise(test.op, operands, typeText(operands[0]))), test.expected);
  }
}

TEST_CASE("reference: integers are exact and wrap") {
  for (const IntegerCase &test : integerCases) {
    CAPTURE(test.op);
    std::vector<HostTensor> operands;
    for (const auto &operand : test.operands)
      operands.push_back(i64(operand));
    CHECK(integers(evaluatePointwise(test.op, operands, typeText(operands[0]))) == test.expected);
  }
}

TEST_CASE("reference: i32 wraps at its own ends") {
  HostTensor large = reference::tensorOf(DType::I32, {2}, {2147483647, -2147483648.0});
  HostTensor one = reference::tensorOf(DType::I32, {2}, {1, -1});
  CHECK(integers(evaluatePointwise("add", {large, one}, "tensor<2xi32>")) ==
        std::vector<std::int64_t>{-2147483648, 2147483647});
}

TEST_CASE("reference: comparisons and logic") {
  HostTensor left = f32({1, 2, 3, NaN}), right = f32({2, 2, 2, NaN});
  auto compare = [&](const char *op) { return integers(evaluatePointwise(op, {left, right}, "tensor<4xi1>")); };
  using Truth = std::vector<std::int64_t>;
  CHECK(compare("eq") == Truth{0, 1, 0, 0});
  CHECK(compare("ne") == Truth{1, 0, 1, 1});
  CHECK(compare("lt") == Truth{1, 0, 0, 0});
  CHECK(compare("le") == Truth{1, 1, 0, 0});
  CHECK(compare("gt") == Truth{0, 0, 1, 0});
  CHECK(compare("ge") == Truth{0, 1, 1, 0});
  CHECK(integers(evaluatePointwise("lt", {i64({highest - 1}), i64({highest})}, "tensor<1xi1>")) == Truth{1});
  CHECK(integers(evaluatePointwise("is_nan", {left}, "tensor<4xi1>")) == Truth{0, 0, 0, 1});

  HostTensor p = booleans({0, 0, 1, 1}), q = booleans({0, 1, 0, 1});
  CHECK(integers(evaluatePointwise("and", {p, q}, "tensor<4xi1>")) == Truth{0, 0, 0, 1});
  CHECK(integers(evaluatePointwise("or", {p, q}, "tensor<4xi1>")) == Truth{0, 1, 1, 1});
  CHECK(integers(evaluatePointwise("not", {p}, "tensor<4xi1>")) == Truth{1, 1, 0, 0});
  CHECK(integers(evaluatePointwise("and", {i64({12, -1, lowest}), i64({10, 77, -2})}, "tensor<3xi64>")) ==
        Truth{8, 77, lowest});
  CHECK(integers(evaluatePointwise("or", {i64({12, -1, lowest}), i64({10, 77, 5})}, "tensor<3xi64>")) ==
        Truth{14, -1, lowest + 5});
  checkClose(reals(evaluatePointwise("where", {p, left, right}, "tensor<4xf32>")), {2, 2, 3, NaN});
  CHECK(integers(evaluatePointwise("where", {p, i64({1, 2, 3, highest}), i64({5, 6, 7, 8})}, "tensor<4xi64>")) ==
        Truth{5, 6, 3, highest});
}

TEST_CASE("reference: casts") {
  HostTensor real = f32({-2.75, 2.75, NaN, infinity, -infinity, 0});
  using Int64s = std::vector<std::int64_t>;
  CHECK(integers(evaluatePointwise("cast", {real}, "tensor<6xi64>")) == Int64s{-2, 2, 0, highest, lowest, 0});
  CHECK(integers(evaluatePointwise("cast", {real}, "tensor<6xi32>")) == Int64s{-2, 2, 0, 2147483647, -2147483648, 0});
  CHECK(integers(evaluatePointwise("cast", {real}, "tensor<6xi1>")) == Int64s{1, 1, 1, 1, 1, 0});
  CHECK(integers(evaluatePointwise("cast", {i64({highest, -1})}, "tensor<2xi32>")) == Int64s{-1, -1});
  checkClose(reals(evaluatePointwise("cast", {booleans({0, 1})}, "tensor<2xf32>")), {0, 1});
  checkClose(reals(evaluatePointwise("cast", {i64({-3, 5})}, "tensor<2xf16>")), {-3, 5});
}

TEST_CASE("reference: a cast to a narrower float rounds only where every op rounds") {
  HostTensor third = f32({1.0 / 3});
  double stored = reals(evaluatePointwise("cast", {third}, "tensor<1xf32>"))[0];
  CHECK(reals(evaluatePointwise("cast", {third}, "tensor<1xbf16>"))[0] == stored);
  CHECK(reals(evaluatePointwise("cast", {third}, "tensor<1xbf16>", Mode::RoundEachOp))[0] == 0.333984375);
  CHECK(reals(evaluatePointwise("cast", {third}, "tensor<1xf16>", Mode::RoundEachOp))[0] == 0.333251953125);
}

TEST_CASE("reference: operands broadcast as in NumPy") {
  HostTensor column = reference::tensorOf(DType::F32, {2, 1}, {10, 20}), row = f32({1, 2, 3});
  checkClose(reals(evaluatePointwise("add", {column, row}, "tensor<2x3xf32>")), {11, 12, 13, 21, 22, 23});
  HostTensor scalar = reference::tensorOf(DType::F32, {}, {2});
  checkClose(reals(evaluatePointwise("mul", {row, scalar}, "tensor<3xf32>")), {2, 4, 6});
  HostTensor middle = reference::tensorOf(DType::F32, {2, 1, 2}, {0, 1, 2, 3});
  HostTensor outer = reference::tensorOf(DType::F32, {2, 1}, {10, 20});
  checkClose(reals(evaluatePointwise("add", {middle, outer}, "tensor<2x2x2xf32>")), {10, 11, 20, 21, 12, 13, 22, 23});
}
