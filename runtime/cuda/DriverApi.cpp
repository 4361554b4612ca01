#include "runtime/cuda/DriverApi.h"

#include <dlfcn.h>

namespace kfuse::runtime::cuda {
namespace {

#define KFUSE_TEXT_OF(name) #name
#define KFUSE_SYMBOL(name) KFUSE_TEXT_OF(name) // Expands the ABI version first.

template <class Function> bool look(void *library, const char *symbol, Function &function, std::string &missing) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr && missing.empty())
    missing = symbol;
  return function != nullptr;
}

constexpr const char *driverLibrary = "libcuda.so.1";

Error noDriver(const std::string &why) { return Error{ErrorCode::NoDevice, "no CUDA device: " + why}; }

ErrorCode codeOf(CUresult status) {
  switch (status) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    return ErrorCode::OutOfMemory;
  // The device is not there, or a kernel's fault took its context down.
  case CUDA_ERROR_NO_DEVICE:
  case CUDA_ERROR_INVALID_DEVICE:
  case CUDA_ERROR_STUB_LIBRARY:
  // It is another device, or driver, than the code was made for.
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
  case CUDA_ERROR_INVALID_PTX:
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
  case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
  // It is lost:
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
    return ErrorCode::NoDevice;
  default:
    return ErrorCode::Internal;
  }
}

} // namespace

Result<DriverApi> DriverApi::open(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL); // Stays open: the driver cannot be unloaded.
  if (handle == nullptr)
    return noDriver("the NVIDIA driver's " + std::string(library) +
                    " was not found; install the driver, or use --target cpu");
  DriverApi api;
  std::string missing;
#define KFUSE_LOOK(name) look(handle, KFUSE_SYMBOL(name), api.name, missing);
  KFUSE_DRIVER_CALLS(KFUSE_LOOK)
#undef KFUSE_LOOK
  look(handle, "cuEventElapsedTime", api.cuEventElapsedTime, missing);
  std::string optional;
  look(handle, KFUSE_SYMBOL(cuStreamGetCaptureInfo), api.cuStreamGetCaptureInfo, optional);
  if (!missing.empty())
    return noDriver(std::string(library) + " lacks " + missing +
                    "; update the NVIDIA driver to 525 (CUDA 12.0) or newer");
  if (Result<void> ready = api.check(api.cuInit(0), "cuInit"); !ready)
    return noDriver(ready.error().message);
  return api;
}

Result<const DriverApi *> DriverApi::get() {
  static const Result<DriverApi> api = open(driverLibrary);
  if (!api)
    return api.error();
  return &api.value();
}

bool DriverApi::isInstalled() { return dlopen(driverLibrary, RTLD_LAZY | RTLD_LOCAL) != nullptr; }

Result<void> DriverApi::check(CUresult status, std::string_view call) const {
  if (status == CUDA_SUCCESS)
    return {};
  const char *words = nullptr, *name = nullptr;
  cuGetErrorString(status, &words);
  cuGetErrorName(status, &name);
  return Error{codeOf(status), std::string(call.substr(0, call.find('('))) + ": " + (words ? words : "error") + " (" +
                                   (name ? name : "CUresult") + ", " + std::to_string(status) + ")"};
}

} // namespace kfuse::runtime::cuda
