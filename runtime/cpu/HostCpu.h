// The processor that kernels are compiled for and run on.
#pragma once

#include <cstddef>
#include <string>

namespace kfuse::runtime::cpu {

struct HostCpu {
  std::string model;    ///< LLVM's name, "znver4".
  std::string features; ///< "+avx2,+fma,...": the features of it that are on, sorted by name.
  int vectorBits = 128; ///< Widest vector registers.
  bool hasBf16Conversion = false;
  int cores = 1;
  std::size_t lastLevelCacheBytes = 0;
};

/// Asked of the machine once.
const HostCpu &hostCpu();

} // namespace kfuse::runtime::cpu
