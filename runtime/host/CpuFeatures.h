// Which instructions the processor has, asked of itself.
#pragma once

#include <string>
#include <vector>

namespace kfuse::runtime {

/// The features of this processor that compiled code may use, by LLVM's names, sorted: "avx2", "fma". Those of vectors
/// only where the system keeps their registers.
std::vector<std::string> cpuFeatures();

/// Every name that cpuFeatures() may hold, of this processor or another.
std::vector<std::string> knownCpuFeatures();

} // namespace kfuse::runtime
