// Compiles plans on a few threads ahead of whoever needs them, in their order.
#pragma once

#include "runtime/Device.h"

#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace kfuse::tuner {

class CompileAhead {
public:
  /// Begins at once. The compiler and the plans must outlive it; a null plan is passed over.
  /// `threads` 0 stands for one per core.
  CompileAhead(runtime::KernelCompiler &compiler, const std::vector<const codegen::KernelPlan *> &plans,
               unsigned threads);
  /// Waits for the compilations under way; those not begun are dropped.
  ~CompileAhead();

  /// Waits for plan `i`; once per plan.
  Result<runtime::CompiledKernel> take(std::size_t i);
  void waitForAll();

private:
  std::vector<std::packaged_task<Result<runtime::CompiledKernel>()>> jobs;
  std::vector<std::future<Result<runtime::CompiledKernel>>> results;
  std::atomic<std::size_t> nextJob = 0;
  std::vector<std::jthread> workers;
};

} // namespace kfuse::tuner
