// Runs CUDA kernels on the CPU, thread by thread: slow, but it needs no GPU and sees every mistake in
// addresses, barriers and fragments that a small case can show.
//
// The host compiler builds the kernel's source against device/ (CUDA's keywords and the PTX
// instructions in plain C++). Each CUDA thread is a fiber (Grid.h). What a thread writes all others see at once: a
// missing fence is not seen here, nor a missing wait for the kernel before.
#pragma once

#include "codegen/KernelPlan.h"
#include "ir/reference/Tensor.h"
#include "kfuse/error.h"
#include "tests/emulation/Grid.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kfuse::test {

/// A plan's kernels as host code, in a temporary folder of their own.
class EmulatedKernel {
public:
  static Result<EmulatedKernel> compile(const codegen::KernelPlan &plan);

  /// The outputs, poisoned before the launches. `states` holds, per output, the input whose memory it
  /// is, or -1. Asynchronous copies arrive at once or late, since real ones do both.
  Result<std::vector<reference::HostTensor>> run(std::span<const reference::HostTensor> inputs,
                                                 std::span<const int> states, Copies when) const;

  /// The same with the grids of a device of so many multiprocessors, which are fewer, or nothing where these do not
  /// change them.
  std::optional<EmulatedKernel> on(int multiprocessors) const;

private:
  codegen::KernelPlan plan;
  std::vector<std::shared_ptr<void>> libraries; ///< As dlopen gave them, for each block that runs at a time a copy.
};

} // namespace kfuse::test
