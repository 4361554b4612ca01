#include "tuner/peaks/Peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace kfuse::tuner {

Peaks knownPeaks(Store &store, const ir::Target &target, const runtime::Device *device) {
  return (device ? store.findPeaks(device->sku()) : std::nullopt).value_or(nominalPeaks(target));
}

Peaks findPeaks(Store &store, const ir::Target &target, runtime::Device *device, runtime::KernelCompiler &compiler,
                int cpuThreads, const Store::Warn &warn, LockPatience &patience) {
  if (Peaks known = knownPeaks(store, target, device); known.measured || !device)
    return known;
  DeviceLock alone(device->id(), DeviceLock::Use::Alone, store.sharedFolder(), patience);
  Peaks nominal = knownPeaks(store, target, device);
  if (nominal.measured || patience.isStopped()) // By another process meanwhile.
    return nominal;
  int threads = cpuThreads > 0 ? cpuThreads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  Result<Peaks> measured =
      target.isCpu() ? Result<Peaks>(measureCpuPeaks(threads, nominal)) : measureCudaPeaks(*device, compiler, target);
  if (!measured && (measured.error().code == ErrorCode::Crash || measured.error().code == ErrorCode::Timeout) &&
      device->restart()) // Its worker ended.
    measured = measureCudaPeaks(*device, compiler, target);
  if (!measured) {
    if (warn && measured.error().code != ErrorCode::Cancelled)
      warn(fmt::format("the peaks of {} could not be measured ({}); using the datasheet's", device->sku(),
                       measured.error().message));
    return nominal;
  }
  store.put(device->sku(), *measured);
  return *measured;
}

} // namespace kfuse::tuner
