// What blocks of a grid exchange of their rows, as the device library does it, between blocks that run in turns.
#include "tests/emulation/Emulator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

using namespace kfuse;
using namespace kfuse::test;
using reference::HostTensor;

namespace {

constexpr int warps = 2, turns = 7;
constexpr int columns = 16; ///< Of a block whose moments are exchanged; the last peer has 5, or none.

/// The turns in which a warp hands out one float of a row, from `in`, and gets that of all peers.
const char *const totals = R"(
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half)
        values[i][half] = in[first + i * 16 + half * 8];
    if (turn % 2 == 0)
      exchange.meet<Sum>(values);
    else
      exchange.meet<Maximum>(values);)";
/// The same of moments: every other turn the mean is given back, else the squares, of which each block has 1.
const char *const moments = R"(
    Moments moments[blocks][2];
    auto countOf = [](int peer) { return float(peer + 1 < peers ? 16 : lastColumns); };
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half)
        moments[i][half] = {countOf(own) > 0 ? in[first + i * 16 + half * 8] : 0, countOf(own) > 0 ? 1.0f : 0.0f};
    exchange.meet(moments, countOf);
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half)
        values[i][half] = turn % 2 == 0 ? moments[i][half].mean : moments[i][half].squares;)";

/// Blocks of a grid: `heights` of `peers`, a warp of which has `blocks` times sixteen rows.
struct Shape {
  std::int64_t heights, peers, blocks;
  int lastColumns = columns; ///< Of the last peer.

  std::int64_t grid() const { return heights * peers; }
  std::int64_t rows() const { return blocks * 16; }
};

/// Warps that meet `turns` times, each block at a pace of its own.
codegen::KernelPlan planOf(const Shape &shape, const char *meeting, int floats) {
  codegen::KernelPlan plan;
  plan.name = "exchange";
  plan.source = "#include <kfuse/grid_exchange.cuh>\nusing namespace kfuse;\nconstexpr int peers = " +
                std::to_string(shape.peers) + ", blocks = " + std::to_string(shape.blocks) +
                ", warps = " + std::to_string(warps) + ", turns = " + std::to_string(turns) +
                ", floats = " + std::to_string(floats) + ", lastColumns = " + std::to_string(shape.lastColumns) + R"(;
extern "C" __global__ void meetings(const float *in, float *out, unsigned *left, unsigned long long *places) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = blockIdx.x % peers;
  GridExchange<peers, blocks, floats> exchange({left, places}, blockIdx.x / peers * warps + warp, own);
  for (int turn = 0; turn < turns; ++turn) {
    float values[blocks][2];
    const int first = ((turn * gridDim.x + blockIdx.x) * warps + warp) * blocks * 16 + lane / 4;
    for (int i = 0; i < (own * 7 + turn * 5) % 11; ++i)
      __syncwarp();)" +
                meeting + R"(
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half)
        out[(first + i * 16 + half * 8) * 4 + lane % 4] = values[i][half];
  }
  exchange.leave();
})";
  plan.inputs = {{DType::F32, {turns, shape.grid(), warps, shape.rows()}}};
  plan.outputs = {{DType::F32, {turns, shape.grid(), warps, shape.rows(), 4}}};
  plan.zeroedBytes = plan.workspaceBytes =
      256 + static_cast<std::uint64_t>(shape.grid() * warps * 2 * floats * shape.rows()) * 8;
  codegen::Launch launch;
  launch.entry = "meetings";
  launch.grid[0] = static_cast<std::uint32_t>(shape.grid());
  launch.block[0] = warps * 32;
  launch.cooperative = true;
  using Kind = codegen::KernelArg::Kind;
  launch.args = {{Kind::Buffer, 0}, {Kind::Buffer, 1}, {Kind::Workspace, 0}, {Kind::Workspace, 256}};
  plan.launches = {launch};
  return plan;
}

/// Small integers: whatever the order, their sums are exact.
float valueAt(std::int64_t i) { return static_cast<float>(i * 7919 % 1013 - 500); }

/// Runs the turns; every lane of every peer has what `expected(turn, index of the row in a peer's input)` says, of
/// which it may differ by `error`.
template <class Expected>
void check(const Shape &shape, const char *meeting, int floats, float error, Expected expected) {
  INFO(shape.peers << " peers, " << shape.blocks << " times 16 rows a warp");
  auto kernel = EmulatedKernel::compile(planOf(shape, meeting, floats));
  REQUIRE_MESSAGE(kernel, kernel.error().message);
  HostTensor in = HostTensor::zeros(DType::F32, {turns, shape.grid(), warps, shape.rows()});
  for (std::int64_t i = 0; i < in.size(); ++i) {
    const float value = valueAt(i);
    std::memcpy(in.bytes.data() + i * 4, &value, 4);
  }
  const int states[] = {-1};
  auto outputs = kernel->run({&in, 1}, states, Copies::Early);
  REQUIRE_MESSAGE(outputs, outputs.error().message);
  const std::int64_t ofBlock = warps * shape.rows();
  std::int64_t wrong = 0, differ = 0;
  for (std::int64_t turn = 0; turn < turns; ++turn)
    for (std::int64_t block = 0; block < shape.grid(); ++block)
      for (std::int64_t row = 0; row < ofBlock; ++row) {
        const std::int64_t first = (turn * shape.grid() + block / shape.peers * shape.peers) * ofBlock + row;
        float own[4], firstPeer[4];
        const std::byte *bytes = outputs->front().bytes.data();
        std::memcpy(own, bytes + ((turn * shape.grid() + block) * ofBlock + row) * 16, 16);
        std::memcpy(firstPeer, bytes + first * 16, 16);
        const double right = expected(turn, first, ofBlock);
        wrong += !(std::abs(own[0] - right) <= error * std::max(1.0, std::abs(right)));
        differ += std::any_of(own, own + 4, [&](float lane) { return lane != firstPeer[0]; });
      }
  CHECK(wrong == 0);
  CHECK(differ == 0);
}

void checkTotals(const Shape &shape) {
  check(shape, totals, 1, 0, [&](std::int64_t turn, std::int64_t first, std::int64_t step) {
    double sum = 0, most = -1e9;
    for (std::int64_t peer = 0; peer < shape.peers; ++peer) {
      sum += valueAt(first + peer * step);
      most = std::max<double>(most, valueAt(first + peer * step));
    }
    return turn % 2 == 0 ? sum : most;
  });
}

void checkMoments(const Shape &shape) {
  check(shape, moments, 2, 1e-5F, [&](std::int64_t turn, std::int64_t first, std::int64_t step) {
    auto countOf = [&](std::int64_t peer) { return peer + 1 < shape.peers ? columns : shape.lastColumns; };
    double count = 0, sum = 0, squares = 0;
    for (std::int64_t peer = 0; peer < shape.peers; ++peer)
      count += countOf(peer), sum += countOf(peer) * valueAt(first + peer * step);
    for (std::int64_t peer = 0; peer < shape.peers; ++peer)
      if (countOf(peer) > 0)
        squares += 1 + countOf(peer) * std::pow(valueAt(first + peer * step) - sum / count, 2);
    return turn % 2 == 0 ? sum / count : squares;
  });
}

} // namespace

TEST_CASE("Emulated grid exchange: totals of all peers' rows, for any number of them, and clean memory behind") {
  checkTotals({2, 2, 1});
  checkTotals({2, 6, 2});
  checkTotals({1, 9, 2});
  checkTotals({1, 17, 1});
}

TEST_CASE("Emulated grid exchange: moments of rows, of blocks of different widths") {
  checkMoments({2, 2, 1, 5});
  checkMoments({1, 6, 2, 0});
  checkMoments({1, 9, 2, 5});
  checkMoments({1, 17, 1});
}
