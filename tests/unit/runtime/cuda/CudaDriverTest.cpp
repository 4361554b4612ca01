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
#include "tests/Skip.h"
#include "tests/unit/runtime/cuda/FakeDriver.h"

#include <filesystem>

using runtime::cuda::DriverApi;

TEST_CASE("DriverApi: the toolkit's stub is no device") {
  Result<const runtime::cuda::Nvrtc *> nvrtc = runtime::cuda::Nvrtc::get();
  if (!nvrtc)
    return testing::skip(nvrtc.error().message);
  std::filesystem::path stub = (*nvrtc)->includePath + "/../lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub))
    return testing::skip("no toolkit, with its stub of the driver");
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
#endif
