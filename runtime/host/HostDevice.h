// The processor as a device that runs kernels: the caller's memory, and a pool of threads.
#pragma once

#include "runtime/Device.h"
#include "runtime/host/ThreadPool.h"

#include <cstddef>

namespace kfuse::runtime {

/// Runs what was compiled elsewhere, and measures nothing; CpuDevice does. Streams mean nothing: a run has ended when
/// it returns.
class HostDevice : public Device {
public:
  explicit HostDevice(int threads) : pool(threads) {}

  std::string sku() const override { return "this processor"; }
  std::string driver() const override { return ""; }
  std::string target() const override { return "cpu"; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override;
  Result<void> upload(void *device, const void *host, std::size_t bytes) override;
  Result<void> download(void *host, const void *device, std::size_t bytes) override;
  Result<void> fill(void *device, unsigned char value, std::size_t bytes) override;
  Result<void> copy(Stream stream, void *to, const void *from, std::size_t bytes) override;
  Result<void> writeWord(Stream stream, void *to, std::uint32_t word) override;
  Result<void> synchronize(Stream /*stream*/) override { return {}; }
  Result<std::unique_ptr<LoadedKernel>> load(const codegen::KernelPlan &plan, const CompiledKernel &kernel) override;
  Result<std::vector<double>> measure(LoadedKernel &kernel, std::span<void *const> buffers, void *workspace,
                                      const MeasureOptions &options) override;

protected:
  /// Calls `body(begin, bytes)` for pieces of a megabyte, on all threads.
  template <class Body> void inPieces(std::size_t bytes, Body body) {
    constexpr std::size_t piece = 1 << 20;
    pool.run(static_cast<std::int64_t>((bytes + piece - 1) / piece), 1, [&](std::int64_t begin, std::int64_t end) {
      std::size_t first = static_cast<std::size_t>(begin) * piece;
      body(first, std::min(static_cast<std::size_t>(end) * piece, bytes) - first);
    });
  }

private:
  ThreadPool pool;
};

} // namespace kfuse::runtime
