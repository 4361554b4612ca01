// Runs CUDA kernels on the CPU, thread by thread: slow, but it needs no GPU and sees every mistake in
// addresses, barriers and fragments that a small case can show.
//
// The host compiler builds the kernel's source against device/ (CUDA's keywords and the PTX
// instructions in plain C++). Each CUDA thread is a fiber; barriers switch fibers. Asynchronous copies
// land either at once or as late as their wait allows, since real ones do both.
#pragma once

#include "codegen/KernelPlan.h"
#include "ir/reference/Tensor.h"
#include "kfuse/error.h"

#include <memory>
#include <span>
#include <vector>

namespace kfuse::test {

/// When asynchronous copies land.
enum class Copies { Early, Late };

/// A plan's kernels as host code, in a temporary folder of their own.
class EmulatedKernel {
public:
  static Result<EmulatedKernel> compile(const codegen::KernelPlan &plan);

  /// The outputs, poisoned before the launches. `states` holds, per output, the input whose memory it
  /// is, or -1.
  Result<std::vector<reference::HostTensor>> run(std::span<const reference::HostTensor> inputs,
                                                 std::span<const int> states, Copies copies) const;

private:
  codegen::KernelPlan plan;
  std::shared_ptr<void> code; ///< As dlopen gave it.
};

} // namespace kfuse::test
