// The numerics policy: what is right, what is wrong, and how a wrong result is described.
#include "EvaluateText.h"

#include "ir/reference/Policy.h"

#include <cmath>
#include <limits>

using namespace kfuse;
using namespace kfuse::test;
using reference::Verdict;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), NaN = std::numeric_limits<double>::quiet_NaN();

Values floats(DType type, const std::vector<double> &numbers) {
  Values values{type, {static_cast<std::int64_t>(numbers.size())}, {}};
  for (double number : numbers)
    values.numbers.push_back({.real = number});
  return values;
}

Values ints(DType type, const std::vector<std::int64_t> &numbers) {
  Values values{type, {static_cast<std::int64_t>(numbers.size())}, {}};
  for (std::int64_t number : numbers)
    values.numbers.push_back({.integer = number});
  return values;
}

/// The verdict when the op-by-op evaluation equals `rounded`.
Verdict judged(const Values &found, const Values &exact, const Values &rounded) {
  Result<Verdict> verdict = reference::judge(found, exact, [&]() -> Result<Values> { return rounded; });
  REQUIRE(verdict);
  return *verdict;
}
Verdict judged(const Values &found, const Values &exact) { return judged(found, exact, exact); }

Verdict judgedF32(const std::vector<double> &found, const std::vector<double> &exact) {
  return judged(floats(DType::F32, found), floats(DType::F32, exact));
}

} // namespace

TEST_CASE("policy: the tolerance of the type") {
  for (auto [type, limit] : {std::pair(DType::F32, 1e-5),
                             {DType::F16, 2e-3},
                             {DType::BF16, 1e-2},
                             {DType::F8E4M3, 4e-2},
                             {DType::F8E5M2, 8e-2}}) {
    CAPTURE(toString(type));
    CHECK(judged(floats(type, {1 + 0.9 * limit}), floats(type, {1})).right);
    Verdict wrong = judged(floats(type, {1 + 1.1 * limit}), floats(type, {1}));
    CHECK(!wrong.right);
    CHECK(wrong.limit == limit);
    CHECK(wrong.error == doctest::Approx(1.1 * limit));
  }
}

TEST_CASE("policy: 1.25 times the error of rounding every op") {
  Values exact = floats(DType::BF16, {1, 1}), rounded = floats(DType::BF16, {1.04, 1.04});
  Verdict right = judged(floats(DType::BF16, {0.951, 0.951}), exact, rounded);
  CHECK(right.right);
  CHECK(right.limit == doctest::Approx(0.05));
  CHECK(!judged(floats(DType::BF16, {0.949, 0.949}), exact, rounded).right);
}

TEST_CASE("policy: the op-by-op evaluation is asked for only when it is needed") {
  auto never = []() -> Result<Values> { return Error{ErrorCode::Internal, "asked"}; };
  CHECK(reference::judge(floats(DType::F32, {1, NaN}), floats(DType::F32, {1, NaN}), never)->right);
  Result<Verdict> failed = reference::judge(floats(DType::F32, {2}), floats(DType::F32, {1}), never);
  REQUIRE(!failed);
  CHECK(failed.error().message == "asked");
}

TEST_CASE("policy: NaN and infinity are where the exact values have them") {
  CHECK(judgedF32({NaN, infinity, -infinity, 1}, {NaN, infinity, -infinity, 1}).right);
  CHECK(judgedF32({1, NaN}, {1, 1}).element == 1);
  CHECK(judgedF32({1, 1}, {1, NaN}).element == 1);
  CHECK(judgedF32({infinity}, {-infinity}).element == 0);
  CHECK(judgedF32({infinity, 1}, {1, 1}).element == 0);
  // What overflows when it is stored is infinite; at the end of the range either will do.
  CHECK(judged(floats(DType::F16, {infinity}), floats(DType::F16, {70000})).right);
  CHECK(judged(floats(DType::F16, {infinity}), floats(DType::F16, {65510})).right);
  CHECK(judged(floats(DType::F16, {65504}), floats(DType::F16, {65525})).right);
  CHECK(!judged(floats(DType::F16, {65504}), floats(DType::F16, {70000})).right);
  CHECK(!judged(floats(DType::F16, {-infinity}), floats(DType::F16, {65510})).right);
  // An overflow in f32 that f64 does not have, where frameworks have it too.
  CHECK(judged(floats(DType::F32, {infinity}), floats(DType::F32, {1}), floats(DType::F32, {infinity})).right);
}

TEST_CASE("policy: one wrong element is not averaged away") {
  std::vector<double> exact(1000000, 1), found = exact;
  found[777777] = 0.99;
  Verdict verdict = judgedF32(found, exact);
  CHECK(verdict.error == doctest::Approx(1e-5));
  CHECK(!verdict.right);
  CHECK(verdict.element == 777777);
  CHECK(verdict.message == "element [777777] is 0.99, expected 1; relative error 1.00e-05, allowed 1.00e-05");
}

TEST_CASE("policy: a small value of an elementwise result is not hidden by large ones") {
  Values exact = floats(DType::F32, {2.0611536e-9, 3, 100}), lost = floats(DType::F32, {0, 3, 100});
  auto judgedWith = [&](double spread) {
    auto widest = [&](std::span<const std::int64_t> offsets) -> Result<std::vector<double>> {
      CHECK(offsets.size() == 1);
      CHECK(offsets[0] == 0);
      return std::vector<double>{spread};
    };
    auto verdict = reference::judge(lost, exact, [&]() -> Result<Values> { return exact; }, widest);
    REQUIRE(verdict);
    return *verdict;
  };
  CHECK(judged(lost, exact).right); // Without it, as of a sum's result.
  Verdict wrong = judgedWith(1e-14);
  CHECK_FALSE(wrong.right);
  CHECK(wrong.element == 0);
  CHECK(judgedWith(1e-8).right);
  // Below 2^-48 of the root mean square it counts as 0.
  auto never = [](std::span<const std::int64_t>) -> Result<std::vector<double>> {
    return Error{ErrorCode::Internal, "asked"};
  };
  CHECK(reference::judge(
            floats(DType::F32, {0, 1}), floats(DType::F32, {1e-15, 1}), []() -> Result<Values> { return Values{}; },
            never)
            ->right);
}

TEST_CASE("policy: an elementwise result of 8-bit floats saturates") {
  Values found = floats(DType::F8E4M3, {-448, 1}), exact = floats(DType::F8E4M3, {-14211.7, 1});
  auto none = [](std::span<const std::int64_t> offsets) -> Result<std::vector<double>> {
    return std::vector<double>(offsets.size());
  };
  auto verdict = reference::judge(found, exact, [&]() -> Result<Values> { return found; }, none);
  REQUIRE(verdict);
  CHECK(verdict->right);
}

TEST_CASE("policy: what cancels, or may tip over, spreads; what is precise does not") {
  std::vector<HostTensor> arguments{reference::tensorOf(DType::F32, {4}, {-20, 1e-7, 1, 0.3})};
  const std::string t = "tensor<4xf32>";
  auto spread = [&](const std::string &lines, const std::string &last) {
    std::string text = functionText(last, arguments);
    text.insert(text.find("{ %r") + 1, "\n" + lines);
    ParsedModule parsed(text);
    REQUIRE(reference::isElementwise(parsed.body(), 0));
    auto widest = reference::spreadAt(parsed.body(), arguments, 0, std::vector<std::int64_t>{0, 1, 2, 3});
    REQUIRE(widest);
    return *widest;
  };
  std::vector<double> precise =
      spread("%e = kfuse.exp %arg0 : (" + t + ") -> " + t + "\n", "kfuse.log1p %e : (" + t + ") -> " + t);
  CHECK(precise[0] < 1e-13);
  std::vector<double> cancels =
      spread("%one = kfuse.constant dense<1.0> : tensor<f32>\n%e = kfuse.exp %arg0 : (" + t + ") -> " + t + "\n",
             "kfuse.sub %e, %one : (" + t + ", tensor<f32>) -> " + t);
  CHECK(cancels[1] > 1e-6);
  CHECK(cancels[0] < 1e-4);
  std::vector<double> tips = spread("%one = kfuse.constant dense<10.0> : tensor<f32>\n%e = kfuse.mul %arg0, %one : (" +
                                        t + ", tensor<f32>) -> " + t + "\n",
                                    "kfuse.floor %e : (" + t + ") -> " + t);
  CHECK(tips[2] >= 1);
  ParsedModule sums(functionText("kfuse.softmax %arg0 : (" + t + ") -> " + t, arguments));
  CHECK_FALSE(reference::isElementwise(sums.body(), 0));
}

TEST_CASE("policy: an exact zero must be zero") {
  CHECK(judgedF32({0, 0}, {0, 0}).right);
  Verdict verdict = judgedF32({0, 1e-30}, {0, 0});
  CHECK(!verdict.right);
  CHECK(verdict.element == 1);
}

TEST_CASE("policy: integers are exact, and of booleans one in a thousand may tip over") {
  CHECK(judged(ints(DType::I64, {9007199254740993}), ints(DType::I64, {9007199254740993})).right);
  Verdict wrong = judged(ints(DType::I64, {1, 9007199254740993}), ints(DType::I64, {1, 9007199254740992}));
  CHECK(!wrong.right);
  CHECK(wrong.element == 1);
  std::vector<std::int64_t> truth(2000, 1), two = truth, three = truth;
  two[3] = two[9] = three[3] = three[9] = three[11] = 0;
  CHECK(judged(ints(DType::Bool, two), ints(DType::Bool, truth)).right);
  CHECK(judged(ints(DType::Bool, three), ints(DType::Bool, truth)).element == 3);
  // Bytes that are neither 0 nor 1 were never written.
  std::vector<std::int64_t> poisoned(2000, 255);
  CHECK(!judged(ints(DType::Bool, poisoned), ints(DType::Bool, truth)).right);
}

TEST_CASE("policy: a result of another size or type is an error") {
  auto same = []() -> Result<Values> { return Values{}; };
  Result<Verdict> verdict = reference::judge(floats(DType::F16, {1}), floats(DType::F32, {1, 2}), same);
  REQUIRE(!verdict);
  CHECK(verdict.error().message == "a result of 1 f16 elements was given, expected 2 f32");
}

TEST_CASE("policy: the results of a block, tf32 refused and f32 accepted") {
  const std::int64_t size = 64;
  std::vector<HostTensor> arguments{reference::normal(DType::F32, {size, size}, 1),
                                    reference::normal(DType::F32, {size, size}, 2)};
  std::string line = "kfuse.matmul %arg0, %arg1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>";
  ParsedModule parsed(functionText(line, arguments));
  auto check = [&](const std::vector<HostTensor> &operands) {
    HostTensor output = reference::toTensor(evaluateLine(line, operands, Mode::RoundEachOp));
    auto verdicts = reference::checkOutputs(parsed.body(), arguments, std::vector{output});
    REQUIRE(verdicts);
    return verdicts->front();
  };
  CHECK(check(arguments).right);
  // tf32 keeps 10 bits of mantissa.
  std::vector<HostTensor> narrowed = arguments;
  for (HostTensor &tensor : narrowed)
    for (std::size_t i = 0; i < tensor.bytes.size(); i += 4) {
      tensor.bytes[i] = std::byte{0};
      tensor.bytes[i + 1] &= std::byte{0xe0};
    }
  Verdict verdict = check(narrowed);
  CHECK(!verdict.right);
  CHECK(verdict.error > 1e-4);
}

TEST_CASE("policy: 8-bit floats rounded right pass, a step further they do not; what saturates is right") {
  for (DType type : {DType::F8E4M3, DType::F8E5M2}) {
    CAPTURE(toString(type));
    std::vector<double> exact, rounded, wrong;
    for (int i = 0; i < 1000; ++i) {
      exact.push_back(std::exp2(i / 250.0)); // Mantissas of every kind.
      rounded.push_back(reference::roundTo(type, exact.back()));
      wrong.push_back(reference::roundTo(type, exact.back() * (type == DType::F8E4M3 ? 1.0625 : 1.125)));
    }
    CHECK(judged(floats(type, rounded), floats(type, exact)).right);
    CHECK(!judged(floats(type, wrong), floats(type, exact)).right);
  }
  CHECK(
      judged(floats(DType::F8E4M3, {1, 448}), floats(DType::F8E4M3, {1, 1e6}), floats(DType::F8E4M3, {1, 448})).right);
  CHECK(
      !judged(floats(DType::F8E4M3, {1, 448}), floats(DType::F8E4M3, {1, NaN}), floats(DType::F8E4M3, {1, NaN})).right);
}
