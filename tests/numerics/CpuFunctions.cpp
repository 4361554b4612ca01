// Scalar functions element by element: the relative error of each, not of the whole result.
#include "CpuRegion.h"

using namespace kfuse;
using namespace kfuse::test;
using reference::tensorOf;
using reference::uniform;

namespace {

/// Largest relative error of any element. Results below the smallest normal float count absolutely.
double worstError(const std::string &op, const std::vector<HostTensor> &arguments) {
  std::string names, types;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    names += (i ? ", %arg" : "%arg") + std::to_string(i);
    types += (i ? ", " : "") + typeText(arguments[i]);
  }
  CpuRegion region(
      functionText("kfuse." + op + " " + names + " : (" + types + ") -> " + typeText(arguments[0]), arguments));
  std::vector<double> found = reference::toDoubles(runPlan(region.plan(region.candidates().front()), arguments)[0]);
  auto exact = reference::evaluate(region.parsed.body(), arguments, Mode::Exact);
  REQUIRE(exact);
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double expected = (*exact)[0].real(static_cast<std::int64_t>(i));
    if (static_cast<float>(expected) == static_cast<float>(found[i]) || (std::isnan(expected) && std::isnan(found[i])))
      continue; // Infinities too.
    double error = std::fabs(found[i] - expected) / std::max(std::fabs(expected), 0x1p-126);
    worst = std::max(worst, std::isnan(error) ? INFINITY : error);
  }
  return worst;
}

/// Numbers of every exponent and either sign: every `step`-th f32, infinities and NaN among them.
HostTensor everyKind(std::uint32_t first, std::uint64_t step) {
  std::vector<std::uint32_t> bits;
  for (std::uint64_t pattern = first; pattern < std::uint64_t{1} << 32; pattern += step)
    bits.push_back(static_cast<std::uint32_t>(pattern));
  for (std::uint32_t special : {0U, 0x80000000U, 0x7f800000U, 0xff800000U, 0x7fc00000U, 1U, 0x80000001U, 0x7f7fffffU,
                                0xff7fffffU, 0x3f800000U, 0xbf800000U, 0x00800000U})
    bits.push_back(special);
  HostTensor tensor = HostTensor::zeros(DType::F32, {static_cast<std::int64_t>(bits.size())});
  std::memcpy(tensor.bytes.data(), bits.data(), tensor.bytes.size());
  return tensor;
}

struct Range {
  const char *op;
  double low, high, limit;
};

} // namespace

TEST_CASE("cpu functions are accurate element by element") {
  // 1 ulp is 6e-8 to 1.2e-7.
  for (Range range : {Range{"exp", -86.9, 95, 2e-7}, Range{"exp", -1, 1, 2e-7}, Range{"log", 1e-3, 2, 3e-7},
                      Range{"log", 1, 1e30, 2e-7}, Range{"tanh", -1, 1, 3e-7}, Range{"tanh", -20, 20, 3e-7},
                      Range{"erf", -1, 1, 3e-7}, Range{"erf", -6, 6, 3e-7}, Range{"gelu", -1, 6, 1e-6},
                      Range{"gelu", -5, 0, 4e-6}, Range{"silu", -80, 80, 4e-7}, Range{"sigmoid", -80, 80, 4e-7},
                      Range{"gelu_tanh", -1, 6, 1e-6}, Range{"sin", -3, 3, 2e-7}, Range{"sin", -1e5, 1e5, 2e-7},
                      Range{"cos", -1e5, 1e5, 2e-7}, Range{"rsqrt", 1e-30, 1e30, 2e-7}}) {
    CAPTURE(std::string(range.op));
    CHECK(worstError(range.op, {uniform(DType::F32, {20000}, 7, range.low, range.high)}) <= range.limit);
  }
}

TEST_CASE("cpu functions are accurate over all of f32") {
  const HostTensor all = everyKind(12345, 65521);
  // Sigmoid drops denormal results.
  for (auto [op, limit] :
       {std::pair("exp", 2e-7), {"expm1", 2e-7},  {"log", 3e-7},   {"log1p", 4e-7},      {"tanh", 3e-7},
        {"erf", 3e-7},          {"sigmoid", 0.5}, {"silu", 4e-7},  {"gelu_tanh", 3e-5},  {"sin", 3e-7},
        {"cos", 3e-7},          {"sqrt", 1e-7},   {"rsqrt", 2e-7}, {"reciprocal", 1e-7}, {"relu", 0.0},
        {"atan", 3e-7},         {"round", 0.0},   {"floor", 0.0},  {"neg", 0.0},         {"abs", 0.0}}) {
    CAPTURE(op);
    CHECK(worstError(op, {all}) <= limit);
  }
  for (Range range : {Range{"exp", -104, -86, 2e-7}, Range{"silu", -100, -80, 4e-7},
                      Range{"gelu_tanh", -10.5, -8, 3e-5}, Range{"sigmoid", -87, 87, 4e-7},
                      Range{"gelu", -13.1, 14, 1e-5}, Range{"expm1", -2, 2, 2e-7}, Range{"log1p", -0.99, 2, 4e-7}}) {
    CAPTURE(range.op);
    CHECK(worstError(range.op, {uniform(DType::F32, {20000}, 7, range.low, range.high)}) <= range.limit);
  }
  // Below a normal number gelu may be any such.
  CHECK(worstError("gelu", {uniform(DType::F32, {1000}, 7, -1e4, -13.1)}) <= 1);
}

TEST_CASE("cpu sine and cosine stay precise where arguments are large or next to a zero") {
  // Large ones, and those next to multiples of pi / 2 (the closest of all f32 is the second).
  const HostTensor x = tensorOf(
      DType::F32, {9}, {1e17, 16367173 * 0x1p72, 3.4e38, -1e30, 3.14159274, 6.28318548, 1.57079637, 355.0, 10367.0});
  CHECK(worstError("sin", {x}) <= 3e-6);
  CHECK(worstError("cos", {x}) <= 3e-6);
}

TEST_CASE("cpu remainders are exact, whatever the quotient") {
  HostTensor a = everyKind(99, 262139), b = everyKind(77, 262139);
  for (std::size_t i = 0; i + 4 <= b.bytes.size(); i += 4) { // Exponents in another order.
    std::uint32_t bits = 0;
    std::memcpy(&bits, &b.bytes[i], 4);
    bits = bits * 2654435761U;
    std::memcpy(&b.bytes[i], &bits, 4);
  }
  CHECK(worstError("rem", {a, b}) == 0);
  CHECK(worstError("mod", {a, b}) <= 6e-8);
  HostTensor left = tensorOf(DType::F32, {6}, {INFINITY, 1, -1, 5, -6, 1e30}),
             right = tensorOf(DType::F32, {6}, {INFINITY, INFINITY, INFINITY, 0, 3, 3});
  CHECK(worstError("rem", {left, right}) == 0);
  CHECK(worstError("mod", {left, right}) == 0);
}

TEST_CASE("cpu powers are accurate over the whole range") {
  HostTensor base = uniform(DType::F32, {20000}, 1, 0, 50), exponent = uniform(DType::F32, {20000}, 2, -20, 20);
  CHECK(worstError("pow", {base, exponent}) <= 2e-7);
  HostTensor large = uniform(DType::F32, {20000}, 3, 1e10, 3e38), small = uniform(DType::F32, {20000}, 4, -1, 1);
  CHECK(worstError("pow", {large, small}) <= 2e-7);
  // Signs, zeros, infinities and NaN: every pair.
  std::vector<double> values{0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, INFINITY, -INFINITY, NAN, 1e30, -1e30, 1e-40};
  std::vector<double> bases, exponents;
  for (double a : values)
    for (double b : values)
      bases.push_back(a), exponents.push_back(b);
  Shape shape{static_cast<std::int64_t>(bases.size())};
  CpuRegion region(functionText("kfuse.pow %arg0, %arg1 : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>",
                                {HostTensor::zeros(DType::F32, shape), HostTensor::zeros(DType::F32, shape)}));
  std::vector<HostTensor> arguments{tensorOf(DType::F32, shape, bases), tensorOf(DType::F32, shape, exponents)};
  std::vector<double> found = reference::toDoubles(runPlan(region.plan(region.candidates().front()), arguments)[0]);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(bases[i]);
    CAPTURE(exponents[i]);
    float expected = static_cast<float>(
        std::pow(static_cast<float>(bases[i]), static_cast<double>(static_cast<float>(exponents[i]))));
    if (std::isnan(expected))
      CHECK(std::isnan(found[i]));
    else if (std::isinf(expected))
      CHECK(found[i] == expected);
    else
      CHECK(found[i] == doctest::Approx(expected).epsilon(1e-6));
  }
}
