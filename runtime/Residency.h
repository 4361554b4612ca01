// Grids on devices with other multiprocessors than they were made for.
#pragma once

#include "codegen/KernelPlan.h"
#include "runtime/Program.h"

namespace kfuse::runtime {

/// The plan with grids of as many blocks as a device of so many multiprocessors holds at once, where blocks go on to
/// further work. The results keep their bits: which block computes a tile does not change it.
codegen::KernelPlan planOn(codegen::KernelPlan plan, int multiprocessors);

/// How many multiprocessors a device must have for the blocks of the program's kernels that wait for each other; 0
/// where none do.
int neededMultiprocessors(const Program &program);

} // namespace kfuse::runtime
