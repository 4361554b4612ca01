#include "tests/gpu/Gpu.h"
#include "tests/unit/SampleProgram.h"

#include <algorithm>
#include <array>

using namespace kfuse;
using namespace kfuse::test;

namespace {

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

struct Timing {
  double us;
  double spread; ///< Largest less smallest sample.
};

Timing timeOf(Gpu &gpu, codegen::KernelPlan plan, std::span<void *const> buffers, bool cold) {
  auto kernel = gpu.load(std::move(plan));
  runtime::MeasureOptions options;
  options.cold = cold;
  std::vector<double> samples = take(gpu.device->measure(*kernel, buffers, nullptr, options));
  CHECK(samples.size() == static_cast<std::size_t>(options.repetitions));
  auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  return {median(samples), *most - *least};
}

/// One block that is busy for so many nanoseconds by the GPU's own clock.
codegen::KernelPlan spinPlanFor(const std::string &parameter, const std::string &nanoseconds) {
  codegen::KernelPlan plan;
  plan.name = "spin";
  plan.source = "__device__ unsigned long long now() {\n"
                "  unsigned long long ns;\n"
                "  asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(ns));\n"
                "  return ns;\n"
                "}\n"
                "extern \"C\" __global__ void spin(" +
                parameter +
                ") {\n"
                "  for (unsigned long long end = now() + " +
                nanoseconds +
                "; now() < end;)\n"
                "    ;\n"
                "}\n";
  codegen::Launch launch;
  launch.entry = "spin";
  plan.launches = {launch};
  return plan;
}

codegen::KernelPlan spinPlan(int us) { return spinPlanFor("", std::to_string(1000 * us)); }

/// Spins for the microseconds that its buffer says.
codegen::KernelPlan spinAsToldPlan() {
  codegen::KernelPlan plan = spinPlanFor("const float *us", "static_cast<unsigned long long>(1000 * *us)");
  plan.inputs = {{DType::F32, {1}}};
  plan.launches[0].args = {{codegen::KernelArg::Kind::Buffer, 0}};
  return plan;
}

} // namespace

TEST_CASE("CudaTimer: a kernel that takes a known time") {
  Gpu gpu;
  for (bool cold : {true, false})
    for (int us : {0, 5, 20, 1000}) {
      CAPTURE(cold);
      CAPTURE(us);
      Timing timing = timeOf(gpu, spinPlan(us), {}, cold);
      MESSAGE("spin of " << us << " us, " << (cold ? "cold" : "warm") << ": " << timing.us << " us, spread "
                         << timing.spread);
      // The global timer ticks once a microsecond on some devices; a start costs one or two.
      CHECK(timing.us > us - 1.1);
      CHECK(timing.us < us * 1.02 + 5);
    }
}

TEST_CASE("CudaTimer: bandwidth of a large add, and the cache's part in a small one") {
  Gpu gpu;
  auto time = [&](std::size_t floats, bool cold) {
    GpuArray a(gpu, floats), b(gpu, floats), out(gpu, floats);
    std::array<void *, 3> buffers{a.data(), b.data(), out.data()};
    return timeOf(gpu, binaryPlan("add", "+", static_cast<std::int64_t>(floats)), buffers, cold);
  };
  const std::size_t large = 64 << 20, small = 1 << 20;
  Timing whole = time(large, true);
  double terabytes = 12e-6 * static_cast<double>(large) / whole.us;
  Timing cold = time(small, true), warm = time(small, false);
  MESSAGE("add of 768 MB: " << terabytes << " TB/s; of 12 MB: " << cold.us << " us cold (spread " << cold.spread
                            << "), " << warm.us << " us warm (spread " << warm.spread << ")");
  CHECK(terabytes > 0.1);
  CHECK(terabytes < 10);
  CHECK(warm.us < cold.us);
}

TEST_CASE("CudaTimer: runs prepared once rotate through copies of their own buffers") {
  Gpu gpu;
  GpuArray few(gpu, std::vector<float>{10}), many(gpu, std::vector<float>{60});
  std::array<void *, 1> fewAt{few.data()}, manyAt{many.data()};
  auto kernel = gpu.load(spinAsToldPlan());
  auto brief = take(gpu.device->prepareRuns(*kernel, fewAt, nullptr, {})),
       lengthy = take(gpu.device->prepareRuns(*kernel, manyAt, nullptr, {}));
  auto check = [](runtime::TimedRuns &runs, double us) { // A start costs one or two.
    const double found = median(take(runs.measure({})));
    CHECK(found > us - 1.1);
    CHECK(found < us * 1.02 + 5);
  };
  for (int turn = 0; turn < 3; ++turn) {
    check(*brief, 10);
    check(*lengthy, 60);
  }
  // What flushes the L2 writes where the copies lie.
  take(gpu.device->measureRuns([&](runtime::Stream stream) { return kernel->launch(stream, manyAt, nullptr); }, {}));
  check(*lengthy, 60);
}

TEST_CASE("CudaTimer: a kernel that cannot be launched is an error") {
  Gpu gpu;
  codegen::KernelPlan plan = spinPlan(0);
  plan.launches[0].block = {2048, 1, 1};
  auto kernel = gpu.load(plan);
  auto failed = gpu.device->measure(*kernel, {}, nullptr, {});
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message.find("kernel 'spin' (spin, ") == 0);
  timeOf(gpu, spinPlan(1), {}, true);
}
