#include "runtime/Samples.h"
#include "runtime/cpu/HostCpu.h"
#include "runtime/host/HostDevice.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/xxhash.h"

#include <atomic>
#include <chrono>
#include <cstdio>

namespace kfuse::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double microsecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// What measures and tells processors apart, too.
class CpuDevice final : public HostDevice {
public:
  explicit CpuDevice(int threads) : HostDevice(threads), threads(threads) {}

  std::string sku() const override { return cpuFacts(threads).sku; }

  Result<std::uint64_t> digest(const void *device, std::size_t bytes) override {
    std::atomic<std::uint64_t> sum = 0;
    inPieces(bytes, [&](std::size_t begin, std::size_t count) {
      llvm::ArrayRef<std::uint8_t> piece(static_cast<const std::uint8_t *>(device) + begin, count);
      sum += llvm::xxh3_64bits(piece) * (2 * begin + 1); // Pieces that change places change the sum.
    });
    return sum.load();
  }

  /// Memory is written a first time here, which takes up to a hundred times as long as later.
  Result<void> prepareMeasuring() override {
    if (evictor)
      return {};
    Result<std::unique_ptr<DeviceBuffer>> made = allocate(2 * cpu::hostCpu().lastLevelCacheBytes);
    if (!made)
      return made.error();
    evictor = std::move(*made);
    return evictCache();
  }

  Result<std::vector<double>> measure(LoadedKernel &kernel, std::span<void *const> buffers, void *workspace,
                                      const MeasureOptions &options) override {
    return measureRuns([&](Stream stream) { return kernel.launch(stream, buffers, workspace); }, options);
  }

  Result<std::vector<double>> measureRuns(const Enqueue &run, const MeasureOptions &options) override {
    if (options.cold)
      if (Result<void> prepared = prepareMeasuring(); !prepared)
        return prepared.error();
    Clock::time_point start = Clock::now();
    do {
      if (Result<void> done = run(nullptr); !done)
        return done.error();
    } while (microsecondsSince(start) < options.warmupMs * 1e3);
    return takeSamples(options, start, [&]() -> Result<double> {
      if (options.cold)
        if (Result<void> evicted = evictCache(); !evicted)
          return evicted.error();
      Clock::time_point begin = Clock::now();
      if (Result<void> done = run(nullptr); !done)
        return done.error();
      return microsecondsSince(begin);
    });
  }

private:
  /// Writes twice the last-level cache, so that nothing of a kernel's buffers stays in it.
  Result<void> evictCache() { return fill(evictor->data(), ++eviction, evictor->size()); }

  int threads;
  std::unique_ptr<DeviceBuffer> evictor;
  unsigned char eviction = 0;
};

} // namespace

DeviceFacts cpuFacts(int threads) {
  const cpu::HostCpu &host = cpu::hostCpu();
  std::uint32_t features = static_cast<std::uint32_t>(llvm::xxh3_64bits(host.features));
  int count = threads > 0 ? threads : host.cores;
  char text[64];
  std::snprintf(text, sizeof text, ", %d bit vectors, features %08x, ", host.vectorBits, features);
  return {host.model + text + std::to_string(count) + (count == 1 ? " thread" : " threads"), "", "cpu", "cpu"};
}

std::unique_ptr<Device> openCpu(int threads) {
  return std::make_unique<CpuDevice>(threads > 0 ? threads : cpu::hostCpu().cores);
}

} // namespace kfuse::runtime
