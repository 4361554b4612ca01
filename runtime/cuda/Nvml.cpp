#include "runtime/cuda/Nvml.h"

#include <dlfcn.h>

namespace kfuse::runtime::cuda {
namespace {

constexpr unsigned smClock = 1, memoryClock = 2, gpuSensor = 0;
constexpr int success = 0, insufficientSize = 7;

} // namespace

template <class Function> bool Nvml::look(const char *name, Function *&function) {
  function = reinterpret_cast<Function *>(dlsym(library, name));
  return function != nullptr;
}

Nvml::Nvml() : library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
  isReady = library && look("nvmlInit_v2", init) && look("nvmlShutdown", shutDown) &&
            look("nvmlDeviceGetHandleByPciBusId_v2", handleAt) && look("nvmlDeviceGetClockInfo", clock) &&
            look("nvmlDeviceGetPowerUsage", power) && look("nvmlDeviceGetTemperature", temperature) &&
            look("nvmlDeviceGetUtilizationRates", utilization) &&
            look("nvmlDeviceGetComputeRunningProcesses_v3", processesOn) && init() == success;
}

Nvml::~Nvml() {
  if (isReady)
    shutDown();
  if (library)
    dlclose(library);
}

std::optional<Conditions> Nvml::conditionsOf(const std::string &pciPlace) const {
  Handle handle = nullptr;
  if (!isReady || handleAt(pciPlace.c_str(), &handle) != success)
    return std::nullopt;
  unsigned sm = 0, memory = 0, milliwatts = 0, celsius = 0;
  clock(handle, smClock, &sm);
  clock(handle, memoryClock, &memory);
  power(handle, &milliwatts);
  temperature(handle, gpuSensor, &celsius);
  return Conditions{double(sm), double(memory), milliwatts / 1000.0, double(celsius)};
}

std::optional<GpuLoad> Nvml::loadOf(const std::string &pciPlace) const {
  Handle handle = nullptr;
  if (!isReady || handleAt(pciPlace.c_str(), &handle) != success)
    return std::nullopt;
  unsigned processes = 0;
  const Status status = processesOn(handle, &processes, nullptr); // Room for none: it tells how many there are.
  if (status != success && status != insufficientSize)
    return std::nullopt;
  Utilization percent{};
  utilization(handle, &percent);
  return GpuLoad{processes, percent.gpu};
}

} // namespace kfuse::runtime::cuda
