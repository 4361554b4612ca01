// The kernel templates of the CPU target.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cpu {

const KernelTemplate &attention(); ///< "cpu.attention": attention of many queries.
const KernelTemplate &matmul();    ///< "cpu.matmul": one product and its epilogue.
const KernelTemplate &pointwise(); ///< "cpu.pointwise": elementwise.
const KernelTemplate &rows();      ///< "cpu.rows": row reductions with what is computed before and after.

/// Most specific first.
std::span<const KernelTemplate *const> templates();

} // namespace kfuse::codegen::cpu
