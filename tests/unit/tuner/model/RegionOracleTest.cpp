#include "IrText.h"

#include "tuner/model/RegionOracle.h"

#include <algorithm>

using namespace kfuse;
using namespace kfuse::test;

TEST_CASE("the oracle of a region sees whether a long state was updated") {
  ParsedModule parsed(R"(
func.func @f(%cache: tensor<4x8192x64xf32>, %new: tensor<4x1x64xf32>, %p: tensor<4xi64>) -> tensor<4x8192x64xf32> {
  %0 = kfuse.state_update %cache, %new, %p {axis = 1 : i64} : (tensor<4x8192x64xf32>, tensor<4x1x64xf32>, tensor<4xi64>) -> tensor<4x8192x64xf32>
  return %0 : tensor<4x8192x64xf32>
})");
  tuner::RegionOracle oracle(parsed.body());
  tuner::HostBuffers inputs = oracle.makeInputs(), outputs{inputs[0]};
  Result<void> stale = oracle.check(inputs, tuner::readFrom(outputs));
  REQUIRE_FALSE(stale);
  CHECK(stale.error().code == ErrorCode::WrongResult);

  constexpr std::size_t row = 64 * sizeof(float);
  const auto *positions = reinterpret_cast<const std::int64_t *>(inputs[2].data());
  for (std::size_t head = 0; head < 4; ++head)
    std::copy_n(inputs[1].begin() + static_cast<std::ptrdiff_t>(head * row), row,
                outputs[0].begin() + static_cast<std::ptrdiff_t>((head * 8192 + positions[head]) * row));
  CHECK(oracle.check(inputs, tuner::readFrom(outputs)));
}

TEST_CASE("the oracle of a region draws what gathers alone take from all that is gathered, other integers small") {
  ParsedModule parsed(R"(
func.func @f(%pages: tensor<1000x4xf32>, %table: tensor<1x500xi64>, %both: tensor<500xi64>) -> (tensor<500x4xf32>, tensor<500x4xf32>, tensor<500xi64>) {
  %0 = kfuse.reshape %table : (tensor<1x500xi64>) -> tensor<500xi64>
  %1 = kfuse.gather %pages, %0 {axis = 0 : i64} : (tensor<1000x4xf32>, tensor<500xi64>) -> tensor<500x4xf32>
  %2 = kfuse.gather %pages, %both {axis = 0 : i64} : (tensor<1000x4xf32>, tensor<500xi64>) -> tensor<500x4xf32>
  %3 = kfuse.neg %both : (tensor<500xi64>) -> tensor<500xi64>
  return %1, %2, %3 : tensor<500x4xf32>, tensor<500x4xf32>, tensor<500xi64>
})");
  const tuner::HostBuffers inputs = tuner::RegionOracle(parsed.body()).makeInputs();
  auto largest = [&](std::size_t input) {
    const auto *numbers = reinterpret_cast<const std::int64_t *>(inputs[input].data());
    CHECK(*std::min_element(numbers, numbers + 500) >= 0);
    return *std::max_element(numbers, numbers + 500);
  };
  CHECK(largest(1) > 900);
  CHECK(largest(1) < 1000);
  CHECK(largest(2) < 8);
}

TEST_CASE("the oracle of a region makes the first elements of a large input alone, and judges by all of it") {
  ParsedModule parsed(R"(
func.func @f(%x: tensor<3x4194301xf32>) -> tensor<3x4194301xf32> {
  %0 = kfuse.neg %x : (tensor<3x4194301xf32>) -> tensor<3x4194301xf32>
  return %0 : tensor<3x4194301xf32>
})");
  tuner::RegionOracle oracle(parsed.body());
  tuner::HostBuffers inputs = oracle.makeInputs();
  const std::size_t piece = inputs[0].size();
  CHECK(piece == 4194301 * sizeof(float));
  tuner::HostBuffers outputs{std::vector<std::byte>(3 * piece)};
  for (std::size_t i = 0; i < outputs[0].size(); ++i)
    outputs[0][i] = inputs[0][i % piece] ^ (i % sizeof(float) == 3 ? std::byte{0x80} : std::byte{0});
  CHECK(oracle.expect(inputs));
  CHECK(oracle.check(inputs, tuner::readFrom(outputs)));
  std::fill(outputs[0].begin() + static_cast<std::ptrdiff_t>(piece), outputs[0].end(), std::byte{0});
  CHECK_FALSE(oracle.check(inputs, tuner::readFrom(outputs)));
}

TEST_CASE("the oracle of a region looks also where it is told to") {
  ParsedModule parsed(R"(
func.func @f(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %0 = kfuse.neg %x : (tensor<1048576xf32>) -> tensor<1048576xf32>
  return %0 : tensor<1048576xf32>
})");
  tuner::RegionOracle oracle(parsed.body());
  tuner::HostBuffers inputs = oracle.makeInputs(), outputs = inputs;
  for (std::size_t i = 3; i < outputs[0].size(); i += sizeof(float))
    outputs[0][i] ^= std::byte{0x80};
  constexpr std::size_t wrong = 500001;
  outputs[0][wrong * sizeof(float) + 3] ^= std::byte{0x80};
  CHECK(oracle.check(inputs, tuner::readFrom(outputs)));
  CHECK(oracle.checkAlso(inputs, 0, {wrong - 1, wrong, wrong + 1}));
  Result<void> judged = oracle.check(inputs, tuner::readFrom(outputs));
  REQUIRE_FALSE(judged);
  CHECK(judged.error().message.find("result 0, 3 elements sampled") == 0);
  outputs[0][wrong * sizeof(float) + 3] ^= std::byte{0x80};
  CHECK(oracle.check(inputs, tuner::readFrom(outputs)));
}
