// What kfuse::describeTargets() and `kfuse targets` tell.
#pragma once

#include "ir/Target.h"

#include <string>
#include <vector>

namespace kfuse::tuner {

struct FoundDevice {
  std::string target, name, detail;
};

/// What this machine has.
struct FoundDevices {
  std::vector<FoundDevice> devices; ///< Its CPU, then its GPUs.
  std::string noGpu;                ///< Why there is none; "" where there is one.
};
FoundDevices findDevices();

/// The cards of an architecture that have facts of their own.
std::vector<std::string> cardsOf(const ir::Target &architecture);

/// NVRTC's version, or why it was not found.
std::string cudaCompilerVersion();

} // namespace kfuse::tuner
