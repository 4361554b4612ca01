// Every schedule of tests/cuda/Schedules.h is one that a template offers, and compiles.
#include "tests/cuda/Schedules.h"
#include "codegen/cuda/text/DeviceLibrary.h"
#include "runtime/Device.h"
#include "tests/Skip.h"

using namespace kfuse;
using namespace kfuse::test;

TEST_CASE("Compile: one config of every schedule") {
  auto compiler = runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
  const ir::Target &target = *ir::findTarget("sm_90a");
  for (const Schedule &schedule : schedules(/*withHopper=*/true)) {
    INFO(schedule.name);
    RegionCase given(schedule.region);
    const codegen::TileConfig config = schedule.config(given.region, target);
    Result<codegen::KernelPlan> plan = schedule.source.emit(given.region, config, target);
    REQUIRE_MESSAGE(plan, plan.error().message);
    if (!compiler)
      continue; // Said below: the texts are checked.
    Result<runtime::CompiledKernel> kernel = (*compiler)->compile(*plan);
    REQUIRE_MESSAGE(kernel, kernel.error().message);
  }
  if (!compiler)
    kfuse::testing::skip("compiling them: " + compiler.error().message);
}
