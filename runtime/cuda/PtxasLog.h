// Reads what NVRTC and its assembler say about a kernel.
#pragma once

#include "runtime/Device.h"

#include <string_view>

namespace kfuse::runtime::cuda {

/// Registers, spills, stack and shared memory from `--ptxas-options=-v`; the worst of all entries.
ResourceFacts parseResourceFacts(std::string_view log);

/// The first line that says "error", or else the first that says anything.
std::string firstErrorLine(std::string_view log);

} // namespace kfuse::runtime::cuda
