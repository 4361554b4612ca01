// A KernelPlan's cubin, loaded and ready to launch.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/PrimaryContext.h"

namespace kfuse::runtime::cuda {

class CudaKernel final : public LoadedKernel {
public:
  /// One launch with its arguments, for a stream or for a graph's node. Valid during the visit.
  struct ReadyLaunch {
    CUfunction function;
    CUlaunchConfig config; ///< On no stream yet.
    void **arguments;

    Result<void> enqueue(const DriverApi &api, CUstream stream) const;
    CUDA_KERNEL_NODE_PARAMS nodeParams() const;
  };
  using Visit = std::function<Result<void>(const ReadyLaunch &)>;

  static Result<std::unique_ptr<LoadedKernel>> load(const ContextRef &context, const codegen::KernelPlan &plan,
                                                    const CompiledKernel &kernel);
  Result<void> launch(Stream stream, std::span<void *const> buffers, void *workspace) override {
    return enqueue(stream, {this, buffers, workspace, /*programmaticLaunch=*/false});
  }
  Result<void> launchProgrammatic(Stream stream, std::span<void *const> buffers, void *workspace) override {
    return enqueue(stream, {this, buffers, workspace, /*programmaticLaunch=*/true});
  }
  /// Shows each launch of a run of this kernel, in order.
  Result<void> visit(const KernelRun &run, const Visit &show) const;

private:
  CudaKernel(ContextRef context, const codegen::KernelPlan &plan, Module module)
      : context(std::move(context)), plan(plan), module(std::move(module)) {
    this->plan.source.clear();
  }
  Result<void> findFunctions();
  Result<void> enqueue(Stream stream, const KernelRun &run) const;
  Result<void> visitOne(std::size_t index, const KernelRun &run, const Visit &show) const;

  ContextRef context;
  codegen::KernelPlan plan; ///< Its source is dropped.
  Module module;
  std::vector<CUfunction> functions; ///< One per launch.
  bool driverOverlaps = false;       ///< It keeps dependent launches in graphs (CUDA 12.3).
};

} // namespace kfuse::runtime::cuda
