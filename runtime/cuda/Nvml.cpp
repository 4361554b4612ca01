#include "runtime/cuda/Nvml.h"

#include <dlfcn.h>

namespace kfuse::runtime::cuda {
namespace {

// As nvml.h declares them; the header is not needed to build.
using Handle = struct nvmlDevice_st *;
constexpr unsigned smClock = 1, memoryClock = 2, gpuSensor = 0;

class Nvml {
public:
  Nvml() {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL); // Stays open.
    auto look = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    int (*init)() = nullptr;
    isReady = library && look(init, "nvmlInit_v2") && look(handleAt, "nvmlDeviceGetHandleByPciBusId_v2") &&
              look(clock, "nvmlDeviceGetClockInfo") && look(power, "nvmlDeviceGetPowerUsage") &&
              look(temperature, "nvmlDeviceGetTemperature") && init() == 0;
  }

  std::optional<Conditions> ask(const std::string &pciPlace) const {
    Handle handle = nullptr;
    if (!isReady || handleAt(pciPlace.c_str(), &handle) != 0)
      return std::nullopt;
    unsigned sm = 0, memory = 0, milliwatts = 0, celsius = 0; // What a card does not tell stays 0.
    clock(handle, smClock, &sm);
    clock(handle, memoryClock, &memory);
    power(handle, &milliwatts);
    temperature(handle, gpuSensor, &celsius);
    return Conditions{double(sm), double(memory), milliwatts / 1000.0, double(celsius)};
  }

private:
  int (*handleAt)(const char *pciBusId, Handle *) = nullptr;
  int (*clock)(Handle, unsigned type, unsigned *mhz) = nullptr;
  int (*power)(Handle, unsigned *milliwatts) = nullptr;
  int (*temperature)(Handle, unsigned sensor, unsigned *celsius) = nullptr;
  bool isReady = false;
};

} // namespace

std::optional<Conditions> conditionsOf(const std::string &pciPlace) {
  static const Nvml nvml;
  return nvml.ask(pciPlace);
}

} // namespace kfuse::runtime::cuda
