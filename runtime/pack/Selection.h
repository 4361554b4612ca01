// Which of a pack's variants a device runs.
#pragma once

#include "kfuse/error.h"
#include "runtime/pack/Manifest.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kfuse::runtime {

/// What decides about a device.
struct DeviceKind {
  std::string target; ///< "sm_90a", "cpu".
  std::string sku;    ///< "NVIDIA H200".
  int multiprocessors = 0;
  int sharedBytes = 0;                 ///< That a block may have.
  int cuda = 0;                        ///< The newest CUDA that its driver serves, as cuDriverGetVersion().
  std::vector<std::string> features{}; ///< cpuFeatures(), of a CPU.
};

/// This processor.
DeviceKind cpuKind();
/// CUDA device `ordinal`, without making a context.
Result<DeviceKind> cudaKind(int ordinal);

/// The number of the variant that runs best: for the device's SKU, else for its architecture, else for the highest
/// lower minor version of its major one, else the newest PTX; on a CPU the one of most features. A variant whose grids
/// count on more multiprocessors than there are, or whose code the driver is too old for, is passed over. NoDevice
/// lists what the pack holds, why not, and what the device is. Where `forced` is not empty it names the target or the
/// SKU to take, and Usage where none of that name runs.
Result<std::size_t> selectVariant(const Manifest &manifest, const DeviceKind &device, std::string_view forced);

} // namespace kfuse::runtime
