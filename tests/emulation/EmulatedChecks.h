// Emulates kernels of a template and judges what they compute.
#pragma once

#include "tests/cuda/Oracle.h"

#include <cstddef>
#include <vector>

namespace kfuse::test {

const ir::Target &hopper();
/// A Hopper whose blocks take several tiles of a small product.
ir::Target hopperOf(int multiprocessors);

/// Runs one config twice, with copies that come early and late: both are right, and alike to the bit.
void check(const RegionCase &given, const std::vector<reference::HostTensor> &inputs, Oracle &oracle,
           const codegen::KernelTemplate &kernel, const codegen::TileConfig &config,
           const ir::Target &target = hopper());

/// The same for so many configs of each case, from all over the template's space. KFUSE_CASE names the only one.
void checkAll(const std::vector<TemplateCase> &cases, const codegen::KernelTemplate &kernel, std::size_t configs);

} // namespace kfuse::test
