#include "runtime/IdleGpus.h"

#include <algorithm>
#include <dlfcn.h>
#include <optional>

namespace kfuse::runtime {
namespace {

/// The four functions of NVML that are needed. It comes with the driver; its header comes with the toolkit, and is
/// not needed for them. A status of 0 is success.
class Nvml {
public:
  Nvml() : library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    isReady = library && look("nvmlInit_v2", init) && look("nvmlShutdown", shutDown) &&
              look("nvmlDeviceGetHandleByPciBusId_v2", deviceAt) &&
              look("nvmlDeviceGetComputeRunningProcesses_v3", processesOn) && init() == 0;
  }
  ~Nvml() {
    if (isReady)
      shutDown();
    if (library)
      dlclose(library);
  }
  Nvml(const Nvml &) = delete;
  Nvml &operator=(const Nvml &) = delete;

  /// Nothing where it cannot be told.
  std::optional<bool> isIdle(const GpuFacts &gpu) const {
    void *device = nullptr;
    if (!isReady || deviceAt(gpu.id.c_str(), &device) != 0)
      return std::nullopt;
    unsigned processes = 0;
    constexpr int success = 0, insufficientSize = 7; // Room for none is too little as soon as there is one.
    int status = processesOn(device, &processes, nullptr);
    if (status != success && status != insufficientSize)
      return std::nullopt;
    return status == success && processes == 0;
  }

private:
  template <class Function> bool look(const char *name, Function *&function) {
    function = reinterpret_cast<Function *>(dlsym(library, name));
    return function != nullptr;
  }

  void *library;
  int (*init)() = nullptr;
  int (*shutDown)() = nullptr;
  int (*deviceAt)(const char *place, void **device) = nullptr;
  int (*processesOn)(void *device, unsigned *count, void *processes) = nullptr;
  bool isReady = false;
};

} // namespace

std::vector<GpuFacts> idleOf(const std::vector<GpuFacts> &gpus) {
  const Nvml nvml;
  std::vector<GpuFacts> idle;
  std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(idle),
               [&](const GpuFacts &gpu) { return nvml.isIdle(gpu).value_or(true); });
  return idle;
}

} // namespace kfuse::runtime
