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
    if (static_cast<float>(expected) == static_cast<float>(found[i]))
      continue; // Infinities too.
    double error = std::fabs(found[i] - expected) / std::max(std::fabs(expected), 0x1p-126);
    worst = std::max(worst, std::isnan(error) ? INFINITY : error);
  }
  return worst;
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
