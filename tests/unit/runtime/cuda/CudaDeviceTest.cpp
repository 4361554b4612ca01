#ifdef KFUSE_CUDA_DRIVER
#include "runtime/cuda/CudaDevice.h"
#include "tests/unit/runtime/cuda/FakeDriver.h"

#include <doctest/doctest.h>

#include <array>

using namespace kfuse;
using namespace kfuse::runtime;

TEST_CASE("CudaDevice: a persistent kernel for 132 multiprocessors has the grid of the device that it is on") {
  static unsigned grid; // The last launch has it.
  cuda::DriverApi api = test::fakeDriver();
  api.cuLaunchKernelEx = [](const CUlaunchConfig *config, CUfunction, void **, void **) {
    return grid = config->gridDimX, CUDA_SUCCESS;
  };
  codegen::KernelPlan plan;
  plan.name = "persistent";
  plan.target = "sm_90a";
  codegen::Launch launch;
  launch.grid[0] = 132;
  launch.residency = {.multiprocessors = 132, .heldBlocks = 132, .workBlocks = 1000};
  plan.launches = {launch};
  for (int multiprocessors : {132, 114, 78}) {
    GpuFacts facts;
    facts.multiprocessors = multiprocessors;
    cuda::CudaDevice device(cuda::PrimaryContext::retain(api, 0).value(), facts);
    Result<std::unique_ptr<LoadedKernel>> kernel = device.load(plan, test::emptyCubin());
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    CHECK((*kernel)->launch(nullptr, {}, nullptr));
    CHECK(grid == static_cast<unsigned>(multiprocessors));
  }
}
#endif
