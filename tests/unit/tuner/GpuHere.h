// What a test of the tuner measures with where there is a GPU.
#pragma once

#include "tests/unit/TemporaryFolder.h"

#include "runtime/Device.h"
#include "tuner/store/Store.h"

#include <memory>

namespace kfuse::tuner::test {

/// The first GPU, its compiler, and a new store.
struct GpuHere {
  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<runtime::KernelCompiler> compiler;
  TemporaryFolder folder = {};
  std::unique_ptr<Store> store = std::move(*Store::open(folder.path / "store.db", {}));

  const ir::Target &target() const { return *ir::findTarget(device->target()); }

  /// Null where a GPU or NVRTC is missing.
  static std::unique_ptr<GpuHere> find() {
    Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus();
    Result<std::unique_ptr<runtime::KernelCompiler>> compiler = runtime::makeCudaCompiler();
    if (!gpus || gpus->empty() || !compiler)
      return nullptr;
    return std::make_unique<GpuHere>(std::move(*runtime::openCuda()), std::move(*compiler));
  }
};

} // namespace kfuse::tuner::test
