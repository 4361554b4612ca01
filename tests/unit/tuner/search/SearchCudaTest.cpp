// The search on a real GPU: a copy kernel whose candidates are its block sizes.
#include "TaskFunctions.h"

#include "tests/Skip.h"
#include "tests/unit/tuner/GpuHere.h"
#include "tuner/peaks/Peaks.h"
#include "tuner/search/Tuner.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

constexpr std::int64_t count = 64 << 20; // 256 MB in, 256 MB out.

Result<codegen::KernelPlan> emitScale(const codegen::TileConfig &config, const std::string &target) {
  std::int64_t threads = config["threads"];
  codegen::KernelPlan plan;
  plan.name = "scale";
  plan.target = target;
  plan.source = "extern \"C\" __global__ void scale(const float4 *x, float4 *y) {\n"
                "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                "  float4 v = x[i];\n"
                "  y[i] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, " +
                std::string(config["wrong"] ? "3" : "2") + " * v.w);\n}\n";
  plan.inputs = plan.outputs = {{DType::F32, {count}}};
  plan.inPlace = {-1};
  codegen::Launch launch;
  launch.entry = "scale";
  launch.grid[0] = static_cast<std::uint32_t>(count / 4 / threads);
  launch.block[0] = static_cast<std::uint32_t>(threads);
  launch.args = {{codegen::KernelArg::Kind::Buffer, 0}, {codegen::KernelArg::Kind::Buffer, 1}};
  plan.launches = {launch};
  return plan;
}

TuningTask scaleTask(const std::string &target) {
  TuningTask task = taskOfFunctions();
  task.name = "scale";
  task.ops = "mul";
  task.templateName = "test.scale";
  task.signature = "mul f32";
  task.work = {.flops = count, .bytesRead = 4.0 * count, .bytesWritten = 4.0 * count};
  functionsOf(task).onCandidates = [] {
    std::vector<codegen::EstimatedConfig> candidates;
    for (std::int64_t threads : {32, 64, 128, 256, 512, 1024})
      candidates.push_back({1, {{"threads", threads}, {"wrong", threads == 512}}});
    return candidates;
  };
  functionsOf(task).onEmit = [target](const codegen::TileConfig &config) { return emitScale(config, target); };
  functionsOf(task).onMakeInputs = [] {
    std::vector<float> x(count);
    for (std::int64_t i = 0; i < count; ++i)
      x[static_cast<std::size_t>(i)] = static_cast<float>(i % 1000) - 500;
    HostBuffers inputs(1, std::vector<std::byte>(4 * count));
    std::memcpy(inputs[0].data(), x.data(), inputs[0].size());
    return inputs;
  };
  functionsOf(task).onCheck = [](const HostBuffers &, const ReadOutput &) { return Result<void>(); };
  return task;
}

} // namespace

TEST_CASE("search: on this GPU a copy comes near its roofline, and the second run measures nothing") {
  const std::unique_ptr<GpuHere> gpu = GpuHere::find();
  if (!gpu)
    return kfuse::testing::skip("no GPU here");
  LockPatience patience;
  Peaks peaks = findPeaks(*gpu->store, gpu->target(), gpu->device.get(), *gpu->compiler, 0, {}, patience);
  TuningContext context{gpu->target(), *gpu->compiler, gpu->device.get(), *gpu->store, peaks, {}};
  TuningTask task = scaleTask(gpu->target().name);
  Result<std::vector<TunedKernel>> kernels = tune(context, std::span(&task, 1));
  REQUIRE(kernels);
  const KernelReport &report = kernels->front().report;
  double percent = report.bound.percent(*report.measuredUs);
  MESSAGE(report.config << ": " << *report.measuredUs << " us, " << percent << " % of the roofline, "
                        << report.candidates << " tried, " << report.failed << " failed");
  CHECK(percent > 70);
  CHECK(percent < 108);
  CHECK((report.failed == 1 || percent > 97)); // At the roof the search stops before it meets the wrong one.
  Result<std::vector<TunedKernel>> warm = tune(context, std::span(&task, 1));
  REQUIRE(warm);
  CHECK(warm->front().report.fromCache);
  CHECK(warm->front().report.measuredUs == report.measuredUs);
}
