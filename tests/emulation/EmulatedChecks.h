// Emulates kernels of a template and judges what they compute.
#pragma once

#include "codegen/KernelTemplate.h"
#include "tests/cuda/Oracle.h"
#include "tests/emulation/Emulator.h"

#include <cstddef>
#include <vector>

namespace kfuse::test {

const ir::Target &hopper();
/// A Hopper whose blocks take several tiles of a small product.
ir::Target hopperOf(int multiprocessors);

/// What a template prints of a region, and that on the emulated device.
struct Emulated {
  codegen::KernelPlan plan;
  EmulatedKernel kernel;
};
/// Both have to be had.
Emulated emulate(const codegen::KernelTemplate &kernel, const RegionCase &given, const codegen::TileConfig &config,
                 const ir::Target &target = hopper());

/// Runs one config twice, with copies that come early and late: both are right, and alike to the bit. So is a run with
/// the grid that the kernel gets on a device of fewer multiprocessors than it was emitted for.
void check(const RegionCase &given, const std::vector<reference::HostTensor> &inputs, Oracle &oracle,
           const codegen::KernelTemplate &kernel, const codegen::TileConfig &config,
           const ir::Target &target = hopper());

/// A region on random inputs, and what is right for them: for several configs of a template.
class EmulatedCase {
public:
  EmulatedCase(const TemplateCase &source, const codegen::KernelTemplate &kernel)
      : given(source), kernel(kernel), inputs(given.inputs()), oracle(given, inputs) {}

  void check(const codegen::TileConfig &config, const ir::Target &target = hopper()) {
    test::check(given, inputs, oracle, kernel, config, target);
  }

private:
  RegionCase given;
  const codegen::KernelTemplate &kernel;
  const std::vector<reference::HostTensor> inputs;
  Oracle oracle;
};

/// The same for so many configs of each case, from all over the template's space. KFUSE_CASE names the only one.
void checkAll(const std::vector<TemplateCase> &cases, const codegen::KernelTemplate &kernel, std::size_t configs);

} // namespace kfuse::test
