// A header that generated source includes. Plain data: no MLIR, no CUDA.
#pragma once

#include <string>

namespace kfuse::codegen {

/// A file of the device library, served to `#include <name>` from memory.
struct DeviceHeader {
  std::string name; ///< "kfuse/gemm_sm80.cuh"
  std::string text;
};

} // namespace kfuse::codegen
