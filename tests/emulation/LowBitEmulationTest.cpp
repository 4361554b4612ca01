// Products with weights of few bits are right in every schedule, and multiply by the very weights that the op says.
#include "codegen/cuda/Templates.h"
#include "tests/emulation/EmulatedChecks.h"
#include "tests/emulation/Emulator.h"

#include <doctest/doctest.h>

#include <array>
#include <set>

using namespace kfuse;
using namespace kfuse::test;

TEST_CASE("Emulated cuda.matmul_sm90_split: weights of few bits become its rows in registers") {
  checkAll(manyRowLowBitCases("bf16"), codegen::cuda::matmulSm90SplitTemplate(), 4);
  checkAll(manyRowLowBitCases("f16"), codegen::cuda::matmulSm90SplitTemplate(),
           2); // Other conversions in the same schedules.
}

TEST_CASE("Emulated cuda.matmul_sm80: weights of few bits become floats on their way to shared memory") {
  checkAll(manyRowLowBitCases("bf16"), codegen::cuda::matmulSm80Template(), 4);
  checkAll(manyRowLowBitCases("f16"), codegen::cuda::matmulSm80Template(),
           2); // Other conversions in the same schedules.
}

TEST_CASE("Emulated cuda.matmul_sm90_low_bits: right for every type of weights, groups, zeros, edges and tile") {
  const codegen::KernelTemplate &kernel = codegen::cuda::matmulSm90LowBitsTemplate();
  for (const char *type : {"bf16", "f16"}) {
    std::vector<TemplateCase> cases = manyRowLowBitCases(type);
    std::string refused; // Rows of the result that begin at no multiple of 16 bytes.
    std::erase_if(cases, [&](const TemplateCase &one) {
      const bool isTaken(kernel.match(RegionCase(one).region, hopper()));
      refused += isTaken ? "" : one.name.substr(0, one.name.find("_of")) + " ";
      return !isTaken;
    });
    CHECK(refused == "low_bits_17x150x1056 low_bits_33x130x528 ");
    checkAll(cases, kernel, type == std::string("bf16") ? 4 : 2); // f16 has other conversions in the same schedules.
  }
}

TEST_CASE("Emulated cuda.matmul_sm90_low_bits: clusters walk many tiles") {
  const codegen::KernelTemplate &kernel = codegen::cuda::matmulSm90LowBitsTemplate();
  const ir::Target target = hopperOf(4);
  for (const TemplateCase &source : {manyRowLowBitCases("bf16")[3], manyRowLowBitCases("bf16").back()}) {
    INFO(source.name);
    RegionCase given(source);
    std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    std::set<std::array<std::int64_t, 3>> seen; // One config of each cluster, in ping-pong and not.
    for (const codegen::TileConfig &config : kernel.candidates(given.region, target))
      if (config["m"] <= 64 && seen.insert({config["cluster_m"], config["cluster_n"], config["pingpong"]}).second)
        check(given, inputs, oracle, kernel, config, target);
    CHECK(seen.size() > 1);
  }
}

TEST_CASE("Emulated cuda.matmul_low_bits: right for every type of weights, groups, zeros, edges and split of K") {
  checkAll(lowBitCases("bf16"), codegen::cuda::matmulLowBitsTemplate(), 4);
  checkAll(lowBitCases("f16"), codegen::cuda::matmulLowBitsTemplate(), 2); // Other conversions in the same schedules.
}

namespace {

/// A left operand each of whose rows has a single 1, at places all over K: rows of the product are columns of the
/// dequantised weights.
reference::HostTensor unitRows(DType type, const Shape &shape) {
  std::vector<double> values(static_cast<std::size_t>(elementCount(shape)));
  for (std::int64_t row = 0; row < shape[0]; ++row)
    values[static_cast<std::size_t>(row * shape[1] + row * 37 % shape[1])] = 1;
  return reference::tensorOf(type, shape, values);
}

/// Scales that leave a number's bits as they are.
void makePowersOfTwo(reference::HostTensor &scales) {
  std::vector<double> values = reference::toDoubles(scales);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(1 << i % 5);
  scales = reference::tensorOf(scales.type, scales.shape, values);
}

enum class Scales { Any, PowersOfTwo };

/// With the search's first config the result is columns of the weights, to the bit.
void checkBits(const TemplateCase &source, const codegen::KernelTemplate &kernel, Scales scales) {
  INFO(source.name << " on " << kernel.name());
  RegionCase given(source);
  std::vector<reference::HostTensor> inputs = given.inputs();
  inputs[0] = unitRows(inputs[0].type, inputs[0].shape);
  if (scales == Scales::PowersOfTwo)
    makePowersOfTwo(inputs[2]);
  auto expected = reference::evaluate(given.parsed.body(), inputs, reference::Mode::RoundEachOp);
  REQUIRE_MESSAGE(expected, expected.error().message);
  const std::vector<codegen::TileConfig> configs = kernel.candidates(given.region, hopper());
  REQUIRE_FALSE(configs.empty());
  auto outputs = emulate(kernel, given, configs.front()).kernel.run(inputs, given.states(), Copies::Early);
  REQUIRE_MESSAGE(outputs, outputs.error().message);
  CHECK(reference::toDoubles(outputs->front()) == reference::toDoubles(reference::toTensor(expected->front())));
}

void checkBitsOfAll(std::vector<TemplateCase> (*cases)(int rows), Scales scales) {
  for (const TemplateCase &source : cases(11))
    for (const codegen::KernelTemplate *kernel :
         {&codegen::cuda::matmulLowBitsTemplate(), &codegen::cuda::matmulSimtTemplate()})
      checkBits(source, *kernel, scales);
  for (const TemplateCase &source : cases(40))
    for (const codegen::KernelTemplate *kernel :
         {&codegen::cuda::matmulSm80Template(), &codegen::cuda::matmulSm90SplitTemplate(),
          &codegen::cuda::matmulSm90LowBitsTemplate()})
      checkBits(source, *kernel, scales);
}

} // namespace

TEST_CASE("Emulated products with rows of a single 1 are columns of the dequantised weights, bit for bit") {
  checkBitsOfAll(weightBitCases, Scales::Any);
}

TEST_CASE("Emulated products with rows of a single 1: zeros that are floats are taken off as the op rounds it") {
  checkBitsOfAll(differenceBitCases, Scales::PowersOfTwo);
}

TEST_CASE("cuda.matmul_low_bits refuses differences that are rounded to another type than the zeros have in memory") {
  const ir::FusionDecision decision =
      codegen::cuda::matmulLowBitsTemplate().match(RegionCase(castZerosCase()).region, hopper());
  CHECK(decision.reason().find("rounds (integers - zeros) to f16, but its zeros are f32") != std::string::npos);
}
