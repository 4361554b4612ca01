#include "runtime/Samples.h"
#include "runtime/cpu/HostCpu.h"
#include "runtime/cpu/Jit.h"
#include "runtime/cpu/ThreadPool.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/xxhash.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace kfuse::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using Entry = void (*)(void *const *arguments, std::int64_t begin, std::int64_t end);

double microsecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

class HostBuffer final : public DeviceBuffer {
public:
  HostBuffer(void *memory, std::size_t bytes) : memory(memory), bytes(bytes) {}
  ~HostBuffer() override { std::free(memory); }
  void *data() const override { return memory; }
  std::size_t size() const override { return bytes; }

private:
  void *memory;
  std::size_t bytes;
};

class CpuKernel final : public LoadedKernel {
public:
  CpuKernel(std::vector<codegen::Launch> launches, std::unique_ptr<cpu::LoadedObject> object, cpu::ThreadPool &pool)
      : launches(std::move(launches)), object(std::move(object)), pool(pool) {}

  Result<void> resolve() {
    for (const codegen::Launch &launch : launches) {
      Result<void *> address = object->address(launch.entry);
      if (!address)
        return address.error();
      entries.push_back(reinterpret_cast<Entry>(*address));
    }
    return {};
  }

  Result<void> launch(Stream, std::span<void *const> buffers, void *workspace) override {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      std::vector<void *> arguments;
      for (const codegen::KernelArg &arg : launches[i].args)
        arguments.push_back(arg.kind == codegen::KernelArg::Kind::Buffer ? buffers[arg.index]
                                                                         : static_cast<char *>(workspace) + arg.index);
      Entry entry = entries[i];
      pool.run(static_cast<std::int64_t>(launches[i].items), static_cast<std::int64_t>(launches[i].grain),
               [&](std::int64_t begin, std::int64_t end) { entry(arguments.data(), begin, end); });
    }
    return {};
  }

private:
  std::vector<codegen::Launch> launches;
  std::unique_ptr<cpu::LoadedObject> object;
  cpu::ThreadPool &pool;
  std::vector<Entry> entries;
};

class CpuDevice final : public Device {
public:
  explicit CpuDevice(int threads) : threads(threads), pool(threads) {}

  std::string sku() const override { return cpuFacts(threads).sku; }
  std::string driver() const override { return ""; }
  std::string target() const override { return "cpu"; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    // Large blocks start on a huge page, which saves most TLB misses of strided walks.
    constexpr std::size_t hugePage = 2 << 20, least = 256;
    std::size_t alignment = bytes >= 2 * hugePage ? hugePage : least;
    if (bytes > SIZE_MAX - alignment)
      return outOfMemory(bytes);
    std::size_t rounded = std::max((bytes + alignment - 1) / alignment * alignment, alignment);
    void *memory = std::aligned_alloc(alignment, rounded);
    if (!memory)
      return outOfMemory(bytes);
    if (alignment == hugePage)
      madvise(memory, rounded, MADV_HUGEPAGE); // A hint: nothing is lost when it fails.
    return std::unique_ptr<DeviceBuffer>(std::make_unique<HostBuffer>(memory, bytes));
  }
  Result<void> upload(void *device, const void *host, std::size_t bytes) override {
    return copy(nullptr, device, host, bytes);
  }
  Result<void> download(void *host, const void *device, std::size_t bytes) override {
    return copy(nullptr, host, device, bytes);
  }
  Result<void> fill(void *device, unsigned char value, std::size_t bytes) override {
    inPieces(bytes, [&](std::size_t begin, std::size_t count) {
      std::memset(static_cast<char *>(device) + begin, value, count);
    });
    return {};
  }
  Result<std::uint64_t> digest(const void *device, std::size_t bytes) override {
    std::atomic<std::uint64_t> sum = 0;
    inPieces(bytes, [&](std::size_t begin, std::size_t count) {
      llvm::ArrayRef<std::uint8_t> piece(static_cast<const std::uint8_t *>(device) + begin, count);
      sum += llvm::xxh3_64bits(piece) * (2 * begin + 1); // Pieces that change places change the sum.
    });
    return sum.load();
  }
  Result<void> writeWord(Stream, void *to, std::uint32_t word) override {
    std::memcpy(to, &word, sizeof(word));
    return {};
  }
  Result<void> copy(Stream, void *to, const void *from, std::size_t bytes) override {
    inPieces(bytes, [&](std::size_t begin, std::size_t count) {
      std::memcpy(static_cast<char *>(to) + begin, static_cast<const char *>(from) + begin, count);
    });
    return {};
  }
  Result<void> synchronize(Stream) override { return {}; }

  Result<std::unique_ptr<LoadedKernel>> load(const codegen::KernelPlan &plan, const CompiledKernel &kernel) override {
    std::lock_guard lock(jitMutex);
    if (!jit) {
      Result<std::unique_ptr<cpu::Jit>> made = cpu::Jit::make();
      if (!made)
        return made.error();
      jit = std::move(*made);
    }
    Result<std::unique_ptr<cpu::LoadedObject>> object = jit->load(kernel.image, plan.name);
    if (!object)
      return object.error();
    auto loaded = std::make_unique<CpuKernel>(plan.launches, std::move(*object), pool);
    if (Result<void> resolved = loaded->resolve(); !resolved)
      return resolved.error();
    return std::unique_ptr<LoadedKernel>(std::move(loaded));
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
  static Error outOfMemory(std::size_t bytes) {
    return Error{ErrorCode::OutOfMemory,
                 "the host could not give " + std::to_string(bytes) + " bytes; free memory or use a smaller model"};
  }

  template <class Body> void inPieces(std::size_t bytes, Body body) {
    constexpr std::size_t piece = 1 << 20;
    pool.run(static_cast<std::int64_t>((bytes + piece - 1) / piece), 1, [&](std::int64_t begin, std::int64_t end) {
      std::size_t first = static_cast<std::size_t>(begin) * piece;
      body(first, std::min(static_cast<std::size_t>(end) * piece, bytes) - first);
    });
  }

  /// Writes twice the last-level cache, so that nothing of a kernel's buffers stays in it.
  Result<void> evictCache() { return fill(evictor->data(), ++eviction, evictor->size()); }

  int threads;
  cpu::ThreadPool pool;
  std::mutex jitMutex;
  std::unique_ptr<cpu::Jit> jit; ///< Started by the first load.
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
