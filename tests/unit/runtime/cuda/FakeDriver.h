// A CUDA driver that does nothing and succeeds, for tests to give it the calls they look at.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/DriverApi.h"

#include <cstring>
#include <elf.h>

namespace kfuse::test {

/// Retains a context, loads kernels and says that it is CUDA 13.0.
inline runtime::cuda::DriverApi fakeDriver() {
  runtime::cuda::DriverApi api;
  api.cuGetErrorString = [](CUresult, const char **words) { return *words = "the words", CUDA_SUCCESS; };
  api.cuGetErrorName = [](CUresult, const char **name) { return *name = "NAME", CUDA_SUCCESS; };
  api.cuDevicePrimaryCtxRetain = [](CUcontext *, CUdevice) { return CUDA_SUCCESS; };
  api.cuDevicePrimaryCtxRelease = [](CUdevice) { return CUDA_SUCCESS; };
  api.cuCtxPushCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  api.cuCtxPopCurrent = [](CUcontext *) { return CUDA_SUCCESS; };
  api.cuDriverGetVersion = [](int *version) { return *version = 13000, CUDA_SUCCESS; };
  api.cuModuleLoadData = [](CUmodule *module, const void *) {
    return *module = reinterpret_cast<CUmodule>(1), CUDA_SUCCESS;
  };
  api.cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  api.cuModuleGetFunction = [](CUfunction *, CUmodule, const char *) { return CUDA_SUCCESS; };
  api.cuFuncSetAttribute = [](CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; };
  return api;
}

/// What of a cubin is looked at.
inline runtime::CompiledKernel emptyCubin() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  runtime::CompiledKernel kernel;
  kernel.image.resize(sizeof header);
  std::memcpy(kernel.image.data(), &header, sizeof header);
  return kernel;
}

} // namespace kfuse::test
