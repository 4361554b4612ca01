#include "runtime/cuda/PrimaryContext.h"

namespace kfuse::runtime::cuda {

Result<ContextRef> PrimaryContext::retain(const DriverApi &api, CUdevice device) {
  CUcontext handle = nullptr;
  KFUSE_DRIVER(api, cuDevicePrimaryCtxRetain(&handle, device));
  return ContextRef(new PrimaryContext(api, device, handle));
}

Result<Memory> allocate(const ContextRef &context, std::size_t bytes) {
  Current current(*context);
  const DriverApi &api = context->api;
  CUdeviceptr pointer = 0;
  CUresult status = bytes == 0 ? CUDA_SUCCESS : api.cuMemAlloc(&pointer, bytes);
  if (status == CUDA_ERROR_OUT_OF_MEMORY) {
    std::size_t free = 0, total = 0;
    api.cuMemGetInfo(&free, &total);
    return Error{ErrorCode::OutOfMemory, "cannot allocate " + std::to_string(bytes) + " bytes of GPU memory: " +
                                             std::to_string(free) + " of " + std::to_string(total) + " are free"};
  }
  if (Result<void> checked = api.check(status, "cuMemAlloc"); !checked)
    return checked.error();
  return Memory(context, pointer);
}

Result<PinnedMemory> allocatePinned(const ContextRef &context, std::size_t bytes) {
  Current current(*context);
  void *memory = nullptr;
  KFUSE_DRIVER(context->api, cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE));
  return PinnedMemory(context, memory);
}

Result<Module> loadModule(const ContextRef &context, const void *image) {
  Current current(*context);
  CUmodule handle = nullptr;
  KFUSE_DRIVER(context->api, cuModuleLoadData(&handle, image));
  return Module(context, handle);
}

Result<StreamHandle> makeStream(const ContextRef &context) {
  Current current(*context);
  CUstream handle = nullptr;
  KFUSE_DRIVER(context->api, cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING));
  return StreamHandle(context, handle);
}

Result<Event> makeEvent(const ContextRef &context) {
  Current current(*context);
  CUevent handle = nullptr;
  KFUSE_DRIVER(context->api, cuEventCreate(&handle, CU_EVENT_DEFAULT));
  return Event(context, handle);
}

} // namespace kfuse::runtime::cuda
