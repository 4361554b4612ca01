// Totals of rows across a grid, as the device library exchanges them, between blocks that run in turns.
#include "tests/emulation/Emulator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>

using namespace kfuse;
using namespace kfuse::test;
using reference::HostTensor;

namespace {

constexpr int warps = 2, turns = 7;

/// `heights` times `peers` blocks whose warps meet `turns` times, each block at a pace of its own.
codegen::KernelPlan planOf(int heights, int peers, int blocks) {
  const std::int64_t grid = std::int64_t(heights) * peers, rows = std::int64_t(blocks) * 16;
  codegen::KernelPlan plan;
  plan.name = "exchange";
  plan.source =
      "#include <kfuse/grid_exchange.cuh>\nusing namespace kfuse;\nconstexpr int peers = " + std::to_string(peers) +
      ", blocks = " + std::to_string(blocks) + ", warps = " + std::to_string(warps) +
      ", turns = " + std::to_string(turns) + R"(;
extern "C" __global__ void meetings(const float *in, float *out, unsigned *left, unsigned long long *places) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = blockIdx.x % peers;
  GridExchange<peers, blocks> exchange({left, places}, blockIdx.x / peers * warps + warp, own);
  for (int turn = 0; turn < turns; ++turn) {
    float values[blocks][2];
    const int first = ((turn * gridDim.x + blockIdx.x) * warps + warp) * blocks * 16 + lane / 4;
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half)
        values[i][half] = in[first + i * 16 + half * 8];
    for (int i = 0; i < (own * 7 + turn * 5) % 11; ++i)
      __syncwarp();
    if (turn % 2 == 0)
      exchange.meet<Sum>(values);
    else
      exchange.meet<Maximum>(values);
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half)
        out[(first + i * 16 + half * 8) * 4 + lane % 4] = values[i][half];
  }
  exchange.leave();
})";
  plan.inputs = {{DType::F32, {turns, grid, warps, rows}}};
  plan.outputs = {{DType::F32, {turns, grid, warps, rows, 4}}};
  const std::uint64_t places = static_cast<std::uint64_t>(grid * warps * 2 * rows) * 8;
  plan.zeroedBytes = plan.workspaceBytes = 256 + places;
  codegen::Launch launch;
  launch.entry = "meetings";
  launch.grid[0] = static_cast<std::uint32_t>(grid);
  launch.block[0] = warps * 32;
  launch.cooperative = true;
  using Kind = codegen::KernelArg::Kind;
  launch.args = {{Kind::Buffer, 0}, {Kind::Buffer, 1}, {Kind::Workspace, 0}, {Kind::Workspace, 256}};
  plan.launches = {launch};
  return plan;
}

/// Small integers: whatever the order, their sums are exact.
float valueAt(std::int64_t i) { return static_cast<float>(i * 7919 % 1013 - 500); }

void check(int heights, int peers, int blocks) {
  INFO(peers << " peers, " << blocks << " times 64 rows");
  auto kernel = EmulatedKernel::compile(planOf(heights, peers, blocks));
  REQUIRE_MESSAGE(kernel, kernel.error().message);
  const std::int64_t grid = std::int64_t(heights) * peers, rows = std::int64_t(blocks) * 16;
  HostTensor in = HostTensor::zeros(DType::F32, {turns, grid, warps, rows});
  for (std::int64_t i = 0; i < in.size(); ++i) {
    const float value = valueAt(i);
    std::memcpy(in.bytes.data() + i * 4, &value, 4);
  }
  const int states[] = {-1};
  auto outputs = kernel->run({&in, 1}, states, Copies::Early);
  REQUIRE_MESSAGE(outputs, outputs.error().message);
  auto index = [&](std::int64_t turn, std::int64_t block, std::int64_t warpRow) {
    return (turn * grid + block) * warps * rows + warpRow;
  };
  std::int64_t wrong = 0;
  for (std::int64_t turn = 0; turn < turns; ++turn)
    for (std::int64_t block = 0; block < grid; ++block)
      for (std::int64_t row = 0; row < warps * rows; ++row) {
        float expected = turn % 2 == 0 ? 0 : -1e9F;
        for (std::int64_t peer = block / peers * peers; peer < (block / peers + 1) * peers; ++peer) {
          const float value = valueAt(index(turn, peer, row));
          expected = turn % 2 == 0 ? expected + value : std::max(expected, value);
        }
        float lanes[4];
        std::memcpy(lanes, outputs->front().bytes.data() + index(turn, block, row) * 16, 16);
        wrong += std::any_of(std::begin(lanes), std::end(lanes), [&](float lane) { return lane != expected; });
      }
  CHECK(wrong == 0);
}

} // namespace

TEST_CASE("Emulated grid exchange: totals of all peers' rows, for any number of them, and clean memory behind") {
  check(2, 2, 1);
  check(2, 6, 2);
  check(1, 9, 2);
  check(1, 17, 1);
}
