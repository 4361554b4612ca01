// Which devices code runs on, by the names of targets.
#pragma once

#include <optional>
#include <string_view>

namespace kfuse::runtime {

/// "sm_90a" -> {90, exact}, "compute_80" -> {80, PTX}.
struct CudaTarget {
  int capability = 0;
  bool isExact = false; ///< "a": runs on this capability only.
  bool isPtx = false;   ///< The driver compiles it for the device.
};

/// None for anything but a CUDA target.
std::optional<CudaTarget> parseCudaTarget(std::string_view name);

/// CUDA's rule: PTX runs on its own capability and later ones, a cubin on its own major version, from its own minor
/// version on.
bool runsOn(std::string_view program, std::string_view device);

} // namespace kfuse::runtime
