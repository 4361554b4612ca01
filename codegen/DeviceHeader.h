// A file of the device library, compiled into kfuse and served to NVRTC from memory.
#pragma once

#include <string>

namespace kfuse::codegen {

struct DeviceHeader {
  std::string name; ///< As kernels include it: "kfuse/gemm_sm80.cuh".
  std::string text;
};

} // namespace kfuse::codegen
