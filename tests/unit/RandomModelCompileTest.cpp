// Random models planned for GPUs that are not here, and the kernels of some through NVRTC.
#include "RandomModels.h"

#include "codegen/cuda/DeviceLibrary.h"
#include "runtime/Device.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// The models of tests/gpu/RandomModelGpuTest.cpp, where they run.
constexpr unsigned first = 5000;

} // namespace

TEST_CASE("random models: each region of each partition has a template, on every GPU") {
  for (const char *name : {"sm_80", "sm_90a"}) {
    const ir::Target &target = *ir::findTarget(name);
    OpByOp opByOp(target);
    for (unsigned seed = first; seed < first + 100; ++seed) {
      CAPTURE(name);
      CAPTURE(seed);
      ParsedModule parsed(modelForGpu(seed));
      REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
      auto fused = tuner::planModel(*parsed.module, target);
      CHECK_MESSAGE(fused, fused.error().message);
      auto apart = tuner::planModel(*parsed.module, opByOp, {.simplify = false});
      CHECK_MESSAGE(apart, apart.error().message);
    }
  }
}

TEST_CASE("random models: what codegen prints for them compiles") {
  Result<std::unique_ptr<runtime::KernelCompiler>> compiler = runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
  codegen::KernelPlan trivial;
  trivial.name = "f", trivial.target = "sm_90a", trivial.source = "__global__ void f() {}";
  if (!compiler || !(*compiler)->compile(trivial)) {
    MESSAGE("skipped: no NVRTC here");
    return;
  }
  const ir::Target &target = *ir::findTarget("sm_90a");
  for (unsigned seed = first; seed < first + 16; ++seed) {
    CAPTURE(seed);
    ParsedModule parsed(modelForGpu(seed));
    auto planned = tuner::planModel(*parsed.module, target);
    REQUIRE_MESSAGE(planned, planned.error().message);
    for (const tuner::PlannedKernel &kernel : planned->kernels) {
      auto candidates = kernel.kernelTemplate->candidates(kernel.region, target);
      REQUIRE_FALSE(candidates.empty());
      auto plan = kernel.kernelTemplate->emit(kernel.region, candidates.front(), target);
      REQUIRE_MESSAGE(plan, plan.error().message);
      auto binary = (*compiler)->compile(*plan);
      CHECK_MESSAGE(binary, binary.error().message);
    }
  }
}
