// NVIDIA's management library, where there is one: clocks, power and temperature of a GPU, and who uses it. It comes
// with the driver and is opened with dlopen; its header is not needed to build.
#pragma once

#include "runtime/IdleGpus.h"

#include <optional>
#include <string>

namespace kfuse::runtime::cuda {

/// One opened library. GPUs are named by their place on the PCI bus ("0000:1b:00.0").
class Nvml {
public:
  /// Without the library, or where it does not start, every answer is nothing.
  Nvml();
  ~Nvml();
  Nvml(const Nvml &) = delete;
  Nvml &operator=(const Nvml &) = delete;

  /// Now. What a card does not tell stays 0.
  std::optional<Conditions> conditionsOf(const std::string &pciPlace) const;
  /// Who computes on it, and how much.
  std::optional<GpuLoad> loadOf(const std::string &pciPlace) const;

private:
  // Copies of what nvml.h declares.
  using Handle = struct nvmlDevice_st *;
  using Status = int; ///< 0: success.
  struct Utilization {
    unsigned gpu, memory; ///< Percent of the time.
  };
  template <class Function> bool look(const char *name, Function *&function);

  void *library;
  bool isReady = false;
  Status (*init)() = nullptr;
  Status (*shutDown)() = nullptr;
  Status (*handleAt)(const char *pciBusId, Handle *) = nullptr;
  Status (*clock)(Handle, unsigned type, unsigned *mhz) = nullptr;
  Status (*power)(Handle, unsigned *milliwatts) = nullptr;
  Status (*temperature)(Handle, unsigned sensor, unsigned *celsius) = nullptr;
  Status (*utilization)(Handle, Utilization *) = nullptr;
  Status (*processesOn)(Handle, unsigned *count, void *processes) = nullptr;
};

} // namespace kfuse::runtime::cuda
