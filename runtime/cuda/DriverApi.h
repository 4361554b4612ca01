// The CUDA driver, opened when it is first needed: kfuse links no libcuda, so that one binary starts
// with or without a GPU.
#pragma once

#include "kfuse/error.h"

#include <cuda.h>

#include <string_view>

// Newer headers map it to _v2, which only drivers from 12.8 have; both do the same.
#undef cuEventElapsedTime

// Every driver call kfuse makes besides cuEventElapsedTime and cuStreamGetCaptureInfo. <cuda.h> maps a name to its
// newest ABI version ("cuMemAlloc" to cuMemAlloc_v2), so these are the symbols to look up, too.
#define KFUSE_DRIVER_CALLS(CALL)                                                                                       \
  CALL(cuInit)                                                                                                         \
  CALL(cuDriverGetVersion)                                                                                             \
  CALL(cuGetErrorString)                                                                                               \
  CALL(cuGetErrorName)                                                                                                 \
  CALL(cuDeviceGet)                                                                                                    \
  CALL(cuDeviceGetCount)                                                                                               \
  CALL(cuDeviceGetName)                                                                                                \
  CALL(cuDeviceGetAttribute)                                                                                           \
  CALL(cuDeviceTotalMem)                                                                                               \
  CALL(cuDevicePrimaryCtxRetain)                                                                                       \
  CALL(cuDevicePrimaryCtxRelease)                                                                                      \
  CALL(cuCtxPushCurrent)                                                                                               \
  CALL(cuCtxPopCurrent)                                                                                                \
  CALL(cuCtxSynchronize)                                                                                               \
  CALL(cuMemAlloc)                                                                                                     \
  CALL(cuMemFree)                                                                                                      \
  CALL(cuMemGetInfo)                                                                                                   \
  CALL(cuMemGetAddressRange)                                                                                           \
  CALL(cuMemHostAlloc)                                                                                                 \
  CALL(cuMemFreeHost)                                                                                                  \
  CALL(cuMemcpyHtoD)                                                                                                   \
  CALL(cuMemcpyHtoDAsync)                                                                                              \
  CALL(cuMemcpyDtoH)                                                                                                   \
  CALL(cuMemcpyDtoDAsync)                                                                                              \
  CALL(cuMemsetD8Async)                                                                                                \
  CALL(cuMemsetD32Async)                                                                                               \
  CALL(cuModuleLoadData)                                                                                               \
  CALL(cuModuleUnload)                                                                                                 \
  CALL(cuModuleGetFunction)                                                                                            \
  CALL(cuFuncSetAttribute)                                                                                             \
  CALL(cuLaunchKernelEx)                                                                                               \
  CALL(cuTensorMapEncodeTiled)                                                                                         \
  CALL(cuStreamCreate)                                                                                                 \
  CALL(cuStreamDestroy)                                                                                                \
  CALL(cuStreamSynchronize)                                                                                            \
  CALL(cuStreamWriteValue32)                                                                                           \
  CALL(cuStreamIsCapturing)                                                                                            \
  CALL(cuStreamBeginCapture)                                                                                           \
  CALL(cuStreamEndCapture)                                                                                             \
  CALL(cuGraphInstantiate)                                                                                             \
  CALL(cuGraphExecKernelNodeSetParams)                                                                                 \
  CALL(cuGraphExecMemcpyNodeSetParams)                                                                                 \
  CALL(cuGraphLaunch)                                                                                                  \
  CALL(cuGraphDestroy)                                                                                                 \
  CALL(cuGraphExecDestroy)                                                                                             \
  CALL(cuEventCreate)                                                                                                  \
  CALL(cuEventRecord)                                                                                                  \
  CALL(cuEventSynchronize)                                                                                             \
  CALL(cuEventDestroy)

namespace kfuse::runtime::cuda {

/// The driver's functions, by their own names.
struct DriverApi {
#define KFUSE_MEMBER(name) decltype(&::name) name = nullptr; // NOLINT(bugprone-macro-parentheses): a name.
  KFUSE_DRIVER_CALLS(KFUSE_MEMBER)
#undef KFUSE_MEMBER
  CUresult (*cuEventElapsedTime)(float *milliseconds, CUevent start, CUevent end) = nullptr;
  decltype(&::cuStreamGetCaptureInfo) cuStreamGetCaptureInfo = nullptr; ///< Null before CUDA 12.3.

  /// Opens and initialises the driver; NoDevice with the reason when that fails.
  static Result<DriverApi> open(const char *library);
  /// The machine's driver, opened by the first caller.
  static Result<const DriverApi *> get();
  /// Whether the library of the machine's driver is there.
  static bool isInstalled();

  /// Success, or an Error that names the call and the driver's own words. `call` may be the whole
  /// expression: what follows the name is dropped.
  Result<void> check(CUresult status, std::string_view call) const;
};

/// Returns from the calling function with the Error when driver call `call` of `api` fails:
/// KFUSE_DRIVER(api, cuMemFree(pointer)).
#define KFUSE_DRIVER(api, call)                                                                                        \
  do {                                                                                                                 \
    if (::kfuse::Result<void> checked = (api).check((api).call, #call); !checked)                                      \
      return checked.error();                                                                                          \
  } while (false)

} // namespace kfuse::runtime::cuda
