#include "runtime/Device.h"

#include <doctest/doctest.h>

using namespace kfuse;

TEST_CASE("openCuda: without a device there is a reason, with one there are facts") {
  Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus();
  Result<std::unique_ptr<runtime::Device>> device = runtime::openCuda();
  if (!device) {
    CHECK(device.error().code == ErrorCode::NoDevice);
    CHECK(device.error().message.find("no CUDA device: ") == 0);
    return;
  }
  CHECK(runtime::hasCudaDriver());
  REQUIRE(gpus);
  REQUIRE_FALSE(gpus->empty());
  CHECK(gpus->front().name == (*device)->sku());
  CHECK(gpus->front().multiprocessors > 0);
  CHECK(gpus->front().memoryBytes > (std::size_t(1) << 30));
}

#ifdef KFUSE_CUDA_DRIVER
#include "runtime/cuda/CudaKernel.h"
#include "runtime/cuda/Nvrtc.h"
#include "tests/unit/FakeDriver.h"

#include <filesystem>

using runtime::cuda::DriverApi;

TEST_CASE("DriverApi: the toolkit's stub is no device") {
  Result<const runtime::cuda::Nvrtc *> nvrtc = runtime::cuda::Nvrtc::get();
  if (!nvrtc)
    return;
  std::filesystem::path stub = (*nvrtc)->includePath + "/../lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub))
    return;
  Result<DriverApi> opened = DriverApi::open(stub.c_str());
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ErrorCode::NoDevice);
  CHECK(opened.error().message.find("no CUDA device: cuInit: ") == 0);
  CHECK(opened.error().message.find("34)") != std::string::npos);
}

TEST_CASE("DriverApi: a missing or foreign library is no device") {
  Result<DriverApi> missing = DriverApi::open("libnowhere.so.1");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::NoDevice);
  CHECK(missing.error().message.find("install the driver") != std::string::npos);
  Result<DriverApi> foreign = DriverApi::open("libm.so.6");
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().message.find("lacks cuInit; update the NVIDIA driver") != std::string::npos);
}

TEST_CASE("DriverApi: errors name the call and keep their kind") {
  DriverApi api;
  api.cuGetErrorString = [](CUresult, const char **words) {
    *words = "the words";
    return CUDA_SUCCESS;
  };
  api.cuGetErrorName = [](CUresult, const char **name) {
    *name = "NAME";
    return CUDA_SUCCESS;
  };
  CHECK(api.check(CUDA_SUCCESS, "cuMemFree(pointer)"));
  Result<void> failed = api.check(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc(&pointer, bytes)");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::OutOfMemory);
  CHECK(failed.error().message == "cuMemAlloc: the words (NAME, 2)");
  CHECK(api.check(CUDA_ERROR_ILLEGAL_ADDRESS, "x").error().code == ErrorCode::NoDevice);
  CHECK(api.check(CUDA_ERROR_INVALID_VALUE, "x").error().code == ErrorCode::Internal);
}

namespace {

int clustersThatFit = 0;          ///< Of the driver below.
std::uint32_t blocksLaunched = 0; ///< By it.

/// A GPU of 114 multiprocessors, each of which holds a block.
DriverApi smallGpu() {
  DriverApi api = test::fakeDriver();
  api.cuDeviceGetAttribute = [](int *value, CUdevice_attribute, CUdevice) { return *value = 114, CUDA_SUCCESS; };
  api.cuOccupancyMaxActiveBlocksPerMultiprocessor = [](int *blocks, CUfunction, int, std::size_t) {
    return *blocks = 1, CUDA_SUCCESS;
  };
  api.cuOccupancyMaxActiveClusters = [](int *clusters, CUfunction, const CUlaunchConfig *) {
    return *clusters = clustersThatFit, CUDA_SUCCESS;
  };
  api.cuLaunchKernelEx = [](const CUlaunchConfig *config, CUfunction, void **, void **) {
    return blocksLaunched = config->gridDimX, CUDA_SUCCESS;
  };
  return api;
}

} // namespace

TEST_CASE("CudaKernel: of blocks that wait for each other as many are launched as the GPU holds at once") {
  const DriverApi api = smallGpu();
  Result<runtime::cuda::ContextRef> context = runtime::cuda::PrimaryContext::retain(api, 0);
  REQUIRE(context);
  codegen::KernelPlan plan;
  plan.name = "chain";
  plan.target = "sm_90a";
  plan.launches.resize(1);
  plan.launches[0].entry = "kfuse_chain";
  plan.launches[0].grid = {132, 1, 1};
  auto blocks = [&] {
    auto kernel = runtime::cuda::CudaKernel::load(*context, plan, test::emptyCubin());
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    REQUIRE((*kernel)->launch(nullptr, {}, nullptr));
    return blocksLaunched;
  };
  CHECK(blocks() == 132); // Need not be there together.
  plan.launches[0].cooperative = true;
  CHECK(blocks() == 114);
  plan.launches[0].grid = {96, 1, 1};
  CHECK(blocks() == 96);
  plan.launches[0].cluster = {4, 1, 1};
  clustersThatFit = 22;
  CHECK(blocks() == 88);
  clustersThatFit = 0;
  auto refused = runtime::cuda::CudaKernel::load(*context, plan, test::emptyCubin());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "kernel 'chain' (kfuse_chain, sm_90a): its blocks wait for each other, and this GPU "
                                   "cannot hold a cluster of 4 at once; tune it on this GPU");
}
#endif
