// A KernelPlan's cubin, loaded and ready to launch.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/PrimaryContext.h"

namespace kfuse::runtime::cuda {

class CudaKernel final : public LoadedKernel {
public:
  static Result<std::unique_ptr<LoadedKernel>> load(const ContextRef &context, const codegen::KernelPlan &plan,
                                                    const CompiledKernel &kernel);
  Result<void> launch(Stream stream, std::span<void *const> buffers, void *workspace) override {
    return launchAll(stream, buffers, workspace, /*isBehind=*/false);
  }
  Result<void> launchBehind(Stream stream, std::span<void *const> buffers, void *workspace) override {
    return launchAll(stream, buffers, workspace, /*isBehind=*/true);
  }

private:
  CudaKernel(ContextRef context, const codegen::KernelPlan &plan, Module module)
      : context(std::move(context)), plan(plan), module(std::move(module)) {
    this->plan.source.clear();
  }
  Result<void> findFunctions();
  Result<void> fitToDevice(codegen::Launch &launch, CUfunction function) const;
  Result<void> launchAll(Stream stream, std::span<void *const> buffers, void *workspace, bool isBehind) const;
  Result<void> launchOne(CUstream stream, std::size_t index, std::span<void *const> buffers, void *workspace,
                         bool mayOverlap) const;

  ContextRef context;
  codegen::KernelPlan plan; ///< Without its source; cooperative grids are what fits.
  Module module;
  std::vector<CUfunction> functions; ///< One per launch.
  bool driverOverlaps = false;       ///< It keeps dependent launches in graphs (CUDA 12.3).
};

} // namespace kfuse::runtime::cuda
