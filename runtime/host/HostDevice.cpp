#include "runtime/host/HostDevice.h"

#include "runtime/host/ObjectCode.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace kfuse::runtime {
namespace {

using Entry = void (*)(void *const *arguments, std::int64_t begin, std::int64_t end);

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

class HostKernel final : public LoadedKernel {
public:
  HostKernel(const codegen::KernelPlan &plan, std::unique_ptr<ObjectCode> code, ThreadPool &pool)
      : launches(plan.launches), code(std::move(code)), pool(pool) {}

  Result<void> findEntries(const std::string &kernel) {
    for (const codegen::Launch &launch : launches) {
      void *entry = code->find(launch.entry);
      if (!entry)
        return Error{ErrorCode::BadModel, "kernel '" + kernel + "': its object defines no '" + launch.entry + "'"};
      entries.push_back(reinterpret_cast<Entry>(entry));
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
  std::unique_ptr<ObjectCode> code;
  ThreadPool &pool;
  std::vector<Entry> entries;
};

/// Counts that threads may share, and no argument that only a GPU has.
bool isForHost(const codegen::Launch &launch) {
  constexpr std::uint64_t most = std::uint64_t(1) << 48;
  return launch.grain >= 1 && launch.grain <= most && launch.items <= most &&
         std::ranges::none_of(launch.args, [](const codegen::KernelArg &arg) {
           return arg.kind == codegen::KernelArg::Kind::TensorMap;
         });
}

Error outOfMemory(std::size_t bytes) {
  return Error{ErrorCode::OutOfMemory,
               "the host could not give " + std::to_string(bytes) + " bytes; free memory or use a smaller model"};
}

} // namespace

Result<std::unique_ptr<DeviceBuffer>> HostDevice::allocate(std::size_t bytes) {
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

Result<void> HostDevice::upload(void *device, const void *host, std::size_t bytes) {
  return copy(nullptr, device, host, bytes);
}

Result<void> HostDevice::download(void *host, const void *device, std::size_t bytes) {
  return copy(nullptr, host, device, bytes);
}

Result<void> HostDevice::fill(void *device, unsigned char value, std::size_t bytes) {
  inPieces(bytes, [&](std::size_t begin, std::size_t count) {
    std::memset(static_cast<char *>(device) + begin, value, count);
  });
  return {};
}

Result<void> HostDevice::copy(Stream, void *to, const void *from, std::size_t bytes) {
  inPieces(bytes, [&](std::size_t begin, std::size_t count) {
    std::memcpy(static_cast<char *>(to) + begin, static_cast<const char *>(from) + begin, count);
  });
  return {};
}

Result<void> HostDevice::writeWord(Stream, void *to, std::uint32_t word) {
  std::memcpy(to, &word, sizeof(word));
  return {};
}

Result<std::unique_ptr<LoadedKernel>> HostDevice::load(const codegen::KernelPlan &plan, const CompiledKernel &kernel) {
  if (!std::ranges::all_of(plan.launches, isForHost))
    return Error{ErrorCode::BadModel, "kernel '" + plan.name + "' is not for the CPU"};
  Result<std::unique_ptr<ObjectCode>> code = ObjectCode::load(kernel.image);
  if (!code)
    return Error{code.error().code, "kernel '" + plan.name + "': " + code.error().message};
  auto loaded = std::make_unique<HostKernel>(plan, std::move(*code), pool);
  if (Result<void> found = loaded->findEntries(plan.name); !found)
    return found.error();
  return std::unique_ptr<LoadedKernel>(std::move(loaded));
}

Result<std::vector<double>> HostDevice::measure(LoadedKernel &, std::span<void *const>, void *,
                                                const MeasureOptions &) {
  return Error{ErrorCode::Usage, "this device runs kernels and measures none"};
}

} // namespace kfuse::runtime
