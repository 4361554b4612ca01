#include "runtime/Residency.h"

#include "tests/unit/SampleProgram.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::runtime;
using codegen::Residency;

namespace {

constexpr std::uint32_t hopper = 132; ///< Multiprocessors of an H200 and an H100 SXM.

/// One launch of clusters of so many blocks.
codegen::KernelPlan planFor(std::uint32_t grid, std::uint32_t cluster, const Residency &residency) {
  codegen::KernelPlan plan;
  codegen::Launch launch;
  launch.grid[0] = grid;
  launch.cluster[0] = cluster;
  launch.residency = residency;
  plan.launches = {launch};
  return plan;
}

std::uint32_t gridOn(int multiprocessors, const codegen::KernelPlan &plan) {
  return planOn(plan, multiprocessors).launches.front().grid[0];
}

} // namespace

TEST_CASE("residency: persistent grids are made again for an H100 PCIe, an H20 and parts of a GPU") {
  const codegen::KernelPlan one = planFor(132, 1, {hopper, 132, 5000});
  CHECK(gridOn(132, one) == 132);
  CHECK(gridOn(114, one) == 114);
  CHECK(gridOn(78, one) == 78);
  CHECK(gridOn(16, one) == 16);
  CHECK(gridOn(148, one) == 148);
  const codegen::KernelPlan pairs = planFor(264, 2, {hopper, 264, 5000}); // Two blocks on each multiprocessor.
  CHECK(gridOn(114, pairs) == 228);
  CHECK(gridOn(78, pairs) == 156);
  const codegen::KernelPlan fours = planFor(120, 4, {hopper, 120, 5000}); // Some multiprocessors are in no whole group.
  CHECK(gridOn(114, fours) == 100);
  CHECK(gridOn(78, fours) == 68);
  CHECK(gridOn(1, planFor(112, 16, {hopper, 112, 5000})) == 16); // A cluster at least.
}

TEST_CASE("residency: no grid has more blocks than there is work for") {
  const codegen::KernelPlan few = planFor(120, 1, {hopper, 132, 120});
  CHECK(gridOn(78, few) == 78);
  CHECK(gridOn(114, few) == 114);
  CHECK(gridOn(148, few) == 120);
}

TEST_CASE("residency: other grids stay") {
  CHECK(gridOn(78, planFor(300, 2, {})) == 300);
  CHECK(gridOn(78, planFor(132, 2, {hopper, 132, 0})) == 132); // They wait for each other: no such device runs them.
}

TEST_CASE("residency: a program needs the multiprocessors of blocks that wait for each other") {
  Program program = test::sampleProgram(8);
  CHECK(neededMultiprocessors(program) == 0);
  program.kernels[0].plan.launches[0].residency = {hopper, 132, 5000};
  CHECK(neededMultiprocessors(program) == 0);
  program.kernels[1].plan.launches[0].residency = {114, 114, 0};
  CHECK(neededMultiprocessors(program) == 114);
}

TEST_CASE("residency: it is kept with a program, which has none where an older kfuse wrote it") {
  Program program = test::sampleProgram(8);
  program.kernels[0].plan.launches[0].residency = {hopper, 132, 5000};
  Result<Program> read = Program::deserialise(program.serialise());
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK((*read == program));
  program.kernels[0].plan.launches[0].residency = {0, 132, 5000};
  read = Program::deserialise(program.serialise());
  REQUIRE_FALSE(read);
  CHECK(read.error().message.find("kernel 'add' has work for 5000 blocks, a grid of 1 and clusters of 1") !=
        std::string::npos);
}
