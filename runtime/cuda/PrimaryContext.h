// The context that every CUDA library of a process shares, and who uses it.
#pragma once

#include "runtime/cuda/DriverApi.h"

#include <cstddef>
#include <memory>

namespace kfuse::runtime::cuda {

/// A retained primary context. Everything that lives in it holds it, so that handles may be freed
/// in any order.
class PrimaryContext {
public:
  static Result<std::shared_ptr<const PrimaryContext>> retain(const DriverApi &api, CUdevice device);
  ~PrimaryContext() { api.cuDevicePrimaryCtxRelease(device); }
  PrimaryContext(const PrimaryContext &) = delete;
  PrimaryContext &operator=(const PrimaryContext &) = delete;

  /// For calls that take a context instead of the calling thread's.
  CUcontext get() const { return handle; }

  const DriverApi &api;
  const CUdevice device;

private:
  friend class Current;
  PrimaryContext(const DriverApi &api, CUdevice device, CUcontext handle) : api(api), device(device), handle(handle) {}

  const CUcontext handle;
};

using ContextRef = std::shared_ptr<const PrimaryContext>;

/// Makes the context the calling thread's while in scope; the caller's own comes back after.
class Current {
public:
  explicit Current(const PrimaryContext &context) : api(context.api) { api.cuCtxPushCurrent(context.handle); }
  ~Current() {
    CUcontext popped;
    api.cuCtxPopCurrent(&popped);
  }
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;

private:
  const DriverApi &api;
};

inline CUdeviceptr devicePointer(const void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

/// A driver handle with the function that frees it, in the context it lives in.
template <class Handle, auto destroy> class Owned {
public:
  Owned() = default;
  Owned(ContextRef context, Handle handle) : context(std::move(context)), handle(handle) {}
  Owned(Owned &&other) noexcept : context(std::move(other.context)), handle(other.handle) { other.handle = {}; }
  Owned &operator=(Owned &&other) noexcept {
    std::swap(context, other.context);
    std::swap(handle, other.handle);
    return *this;
  }
  ~Owned() {
    if (!handle)
      return;
    Current current(*context);
    (context->api.*destroy)(handle);
  }

  Handle get() const { return handle; }
  explicit operator bool() const { return handle != Handle{}; }

private:
  ContextRef context;
  Handle handle{};
};

using Memory = Owned<CUdeviceptr, &DriverApi::cuMemFree>;
using PinnedMemory = Owned<void *, &DriverApi::cuMemFreeHost>;
using Module = Owned<CUmodule, &DriverApi::cuModuleUnload>;
using StreamHandle = Owned<CUstream, &DriverApi::cuStreamDestroy>;
using Event = Owned<CUevent, &DriverApi::cuEventDestroy>;
using Graph = Owned<CUgraph, &DriverApi::cuGraphDestroy>;
using GraphExec = Owned<CUgraphExec, &DriverApi::cuGraphExecDestroy>;

/// Device memory; OutOfMemory names the bytes asked for and those that were free.
Result<Memory> allocate(const ContextRef &context, std::size_t bytes);
/// Memory of the host that devices copy from by themselves.
Result<PinnedMemory> allocatePinned(const ContextRef &context, std::size_t bytes);
/// Machine code, or PTX for the driver to compile.
Result<Module> loadModule(const ContextRef &context, const void *image);
/// A stream that does not wait for the default stream.
Result<StreamHandle> makeStream(const ContextRef &context);
Result<Event> makeEvent(const ContextRef &context);

} // namespace kfuse::runtime::cuda
