// Kernels of which a run needs the first rows alone: these are what they are in a run of all rows, bit for bit where
// sums are not split otherwise, and what lies behind them is not computed.
#include "codegen/cuda/Templates.h"
#include "tests/cuda/Oracle.h"
#include "tests/cuda/RegionText.h"
#include "tests/emulation/Emulator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kfuse;
using namespace kfuse::test;
using reference::HostTensor;

namespace {

/// `body` defines %0 of type `result`, of whose dimension `axis` a run needs `times` for each of %n's second length.
TemplateCase endedCase(std::vector<std::string> arguments, const std::string &result, const std::string &body, int axis,
                       int times) {
  const std::string lengths = tensor("2", "i64"), n = std::string(1, static_cast<char>('a' + arguments.size()));
  arguments.push_back(lengths);
  return {"ended",
          function(arguments, result,
                   body + "\n%r = kfuse.prefix %0, %" + n + " {axis = " + std::to_string(axis) +
                       " : i64, length = 1 : i64, times = " + std::to_string(times) + " : i64, plus = 0 : i64} : (" +
                       result + ", " + lengths + ") -> " + result + "\nreturn %r : " + result)};
}

TemplateCase product(int m, int n, int k, bool isGated = false) {
  const std::string a = matrixType(m, k, false, "bf16"), b = matrixType(k, n, true, "bf16"),
                    r = matrixType(m, n, false, "bf16"), types = " {transpose_b} : (" + a + ", " + b + ") -> " + r;
  if (!isGated)
    return endedCase({a, b}, r, "%0 = kfuse.matmul %a, %b" + types, 0, 1);
  return endedCase({a, b, b}, r,
                   "%1 = kfuse.matmul %a, %b" + types + "\n%2 = kfuse.matmul %a, %c" + types +
                       "\n%0 = kfuse.mul %1, %2 : (" + r + ", " + r + ") -> " + r,
                   0, 1);
}

/// Elements of a result up to index `end` of dimension `axis`, by their number.
bool isNeeded(const Shape &shape, int axis, std::int64_t end, std::int64_t element) {
  std::int64_t inner = 1;
  for (std::size_t dim = axis + 1; dim < shape.size(); ++dim)
    inner *= shape[dim];
  return element / inner % shape[axis] < end;
}

struct EndedRun {
  const RegionCase &given;
  const codegen::KernelTemplate &kernel;
  int axis = 0, times = 1;
  std::int64_t granule = 1; ///< The axis's; a kernel may compute a whole one that is needed in part.
  double tolerance = 0;     ///< A share of each element.
};

bool areAlike(double found, double expected, double tolerance) {
  return tolerance > 0 && std::abs(found - expected) <= tolerance * std::max(std::abs(expected), 1.0);
}

void check(const EndedRun &run, const codegen::TileConfig &config, const ir::Target &target) {
  INFO("config " << config.str());
  Result<codegen::KernelPlan> plan = run.kernel.emit(run.given.region, config, target);
  REQUIRE_MESSAGE(plan, plan.error().message);
  Result<EmulatedKernel> emulated = EmulatedKernel::compile(*plan);
  REQUIRE_MESSAGE(emulated, emulated.error().message << "\n" << plan->source);
  const Shape shape = run.given.region.graph.outputs[0].shape;
  const std::int64_t most = shape[run.axis] / run.times;
  std::vector<HostTensor> inputs = run.given.inputs();
  auto outputOf = [&](std::int64_t length) {
    inputs.back() = reference::tensorOf(DType::I64, {2}, {1, static_cast<double>(length)});
    auto outputs = emulated->run(inputs, run.given.states(), Copies::Late);
    REQUIRE_MESSAGE(outputs, outputs.error().message << "\n" << plan->source);
    return std::move((*outputs)[0]);
  };
  const HostTensor whole = outputOf(most);
  const std::size_t width = byteWidth(whole.type);
  for (std::int64_t length : {std::int64_t{1}, most / 3, most - 1}) {
    CAPTURE(length);
    const HostTensor ended = outputOf(length);
    const std::vector<std::byte> nothing(width, std::byte{0xff}); // What nobody wrote.
    const std::int64_t end = length * run.times, computed = (end + run.granule - 1) / run.granule * run.granule;
    const std::vector<double> foundValues = reference::toDoubles(ended), expectedValues = reference::toDoubles(whole);
    bool areRight = true, isLeft = true;
    for (std::int64_t i = 0; i < elementCount(shape); ++i) {
      const std::byte *found = &ended.bytes[static_cast<std::size_t>(i) * width],
                      *expected = &whole.bytes[static_cast<std::size_t>(i) * width];
      if (isNeeded(shape, run.axis, end, i))
        areRight &= std::memcmp(found, expected, width) == 0 ||
                    areAlike(foundValues[static_cast<std::size_t>(i)], expectedValues[static_cast<std::size_t>(i)],
                             run.tolerance);
      else if (!isNeeded(shape, run.axis, computed, i))
        isLeft &= std::memcmp(found, nothing.data(), width) == 0;
    }
    CHECK_MESSAGE(areRight, plan->source);
    CHECK_MESSAGE(isLeft, plan->source);
  }
}

/// Some configs of a kernel, and that it is right where a run needs all.
template <class Granule>
void checkAll(const TemplateCase &source, const codegen::KernelTemplate &kernel, int axis, int times,
              std::size_t configs, Granule granuleOf) {
  ir::Target target = *ir::findTarget("sm_90a");
  target.multiprocessors = 3; // Blocks take several tiles.
  RegionCase given(source);
  REQUIRE(given.region.graph.runExtent);
  ir::FusionDecision decision = kernel.match(given.region, target);
  REQUIRE_MESSAGE(decision, decision.reason());
  const std::vector<codegen::TileConfig> all = kernel.candidates(given.region, target);
  REQUIRE_FALSE(all.empty());
  for (std::size_t i = 0; i < std::min(configs, all.size()); ++i) {
    const codegen::TileConfig &config = all[i * all.size() / std::min(configs, all.size())];
    check({given, kernel, axis, times, granuleOf(config)}, config, target);
  }
}

} // namespace

TEST_CASE("Emulated run extent: rows of tiles of wgmma") {
  auto granule = [](const codegen::TileConfig &config) { return config["m"] * config["cluster_m"]; };
  checkAll(product(700, 136, 72), codegen::cuda::matmulSm90Template(), 0, 1, 6, granule);
  checkAll(product(600, 64, 136, true), codegen::cuda::matmulSm90Template(), 0, 1, 3, granule);
}

TEST_CASE("Emulated run extent: tiles of wgmma whose columns are rows of the result") {
  ir::Target target = *ir::findTarget("sm_90a");
  target.multiprocessors = 3;
  const codegen::KernelTemplate &kernel = codegen::cuda::matmulSm90Template();
  for (const TemplateCase &source : {product(300, 264, 72), product(300, 136, 72, true)}) {
    RegionCase given(source);
    std::vector<codegen::TileConfig> swapped = kernel.candidates(given.region, target);
    std::erase_if(swapped, [](const codegen::TileConfig &config) { return config.valueOr("swap", 0) == 0; });
    REQUIRE_FALSE(swapped.empty());
    const codegen::TileConfig &config = swapped.front();
    check({given, kernel, 0, 1, config["m"] * config["cluster_m"]}, config, target);
  }
}

TEST_CASE("Emulated run extent: bounds of a run whose rows end in whole tiles have one code") {
  const codegen::KernelTemplate &kernel = codegen::cuda::matmulSm90Template();
  const ir::Target &target = *ir::findTarget("sm_90a");
  auto sourceOf = [&](int rows) {
    RegionCase given(product(rows, 4096, 512));
    const codegen::TileConfig config{{"cluster_m", 1}, {"cluster_n", 1}, {"k", 64},      {"m", 128},
                                     {"n", 128},       {"pingpong", 0},  {"swizzle", 1}, {"swizzle_n", 0},
                                     {"split_k", 1},   {"stages", 4}};
    Result<codegen::KernelPlan> plan = kernel.emit(given.region, config, target);
    REQUIRE_MESSAGE(plan, plan.error().message);
    return plan->source.substr(plan->source.find("#include")); // Its head names the region.
  };
  CHECK(sourceOf(1024) == sourceOf(1280));
  CHECK(sourceOf(1024) != sourceOf(1240));
}

TEST_CASE("Emulated run extent: tiles of wgmma of a last wave, which clusters share") {
  ir::Target target = *ir::findTarget("sm_90a");
  target.multiprocessors = 5; // Some of 7 tiles or of 13 are left, with one or more contributors for each.
  const codegen::KernelTemplate &kernel = codegen::cuda::matmulSm90Template();
  for (const TemplateCase &source : {product(850, 64, 1024), product(420, 64, 1536, true)}) {
    RegionCase given(source);
    std::vector<codegen::TileConfig> shared = kernel.candidates(given.region, target);
    std::erase_if(shared, [](const codegen::TileConfig &config) { return config.valueOr("segments", 0) == 0; });
    REQUIRE_FALSE(shared.empty());
    for (const codegen::TileConfig &config : {shared.front(), shared.back()})
      check({given, kernel, 0, 1, config["m"] * config["cluster_m"], 0.01}, config, target);
  }
}

TEST_CASE("Emulated run extent: tiles of wgmma whose K is split") {
  checkAll(product(300, 136, 520), codegen::cuda::matmulSm90SplitTemplate(), 0, 1, 6,
           [](const codegen::TileConfig &config) { return config["m"] * config["cluster_m"]; });
}

TEST_CASE("Emulated run extent: tiles of mma.sync and of plain FMAs, with K split too") {
  auto granule = [](const codegen::TileConfig &config) {
    return config.valueOr("split_k", 1) > 1 ? std::int64_t{1} : config["m"];
  };
  checkAll(product(300, 136, 520), codegen::cuda::matmulSm80Template(), 0, 1, 8, granule);
  checkAll(product(300, 72, 136, true), codegen::cuda::matmulSm80Template(), 0, 1, 3, granule);
  checkAll(product(100, 40, 72), codegen::cuda::matmulSimtTemplate(), 0, 1, 4, granule);
}

TEST_CASE("Emulated run extent: tiles that are transposed, along either side") {
  const std::string t = tensor("264x400", "bf16"), turned = tensor("400x264", "bf16"),
                    body = "%0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (" + t + ") -> " + turned;
  auto down = [](const codegen::TileConfig &config) {
    return config.valueOr("side", 0) > 0 ? config["side"]
                                         : config["down"] * config["lanes_down"] * config["warps_down"];
  };
  auto across = [](const codegen::TileConfig &config) {
    return config.valueOr("side", 0) > 0 ? config["side"]
                                         : config["across"] * (32 / config["lanes_down"]) * config["warps_across"];
  };
  checkAll(endedCase({t}, turned, body, 0, 1), codegen::cuda::transposeTemplate(), 0, 1, 6, down);
  checkAll(endedCase({t}, turned, body, 1, 1), codegen::cuda::transposeTemplate(), 1, 1, 6, across);
}

TEST_CASE("Emulated run extent: rows") {
  const std::string t = tensor("150x200", "bf16"), heads = tensor("50x3x200", "bf16");
  auto granule = [](const codegen::TileConfig &config) {
    return config["rows"] * std::max<std::int64_t>(1, config.valueOr("rows_each", 0));
  };
  checkAll(endedCase({t}, t, "%0 = kfuse.softmax %a : (" + t + ") -> " + t, 0, 3), codegen::cuda::rowsTemplate(), 0, 3,
           8, granule);
}

TEST_CASE("Emulated run extent: elements, of one row or of several") {
  const std::string t = tensor("90x40", "bf16"), heads = tensor("3x50x40", "bf16");
  auto one = [](const codegen::TileConfig &) { return std::int64_t{1}; };
  checkAll(endedCase({t}, t, "%0 = kfuse.exp %a : (" + t + ") -> " + t, 0, 1), codegen::cuda::pointwiseTemplate(), 0, 1,
           6, one);
  checkAll(endedCase({heads}, heads, "%0 = kfuse.exp %a : (" + heads + ") -> " + heads, 1, 1),
           codegen::cuda::pointwiseTemplate(), 1, 1, 6, one);
}
