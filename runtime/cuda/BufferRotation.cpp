#include "runtime/cuda/BufferRotation.h"

#include <bit>
#include <map>

namespace kfuse::runtime::cuda {
namespace {

constexpr std::size_t mostSets = 128; // Enough for kernels of a microsecond; more nodes take long to instantiate.
constexpr std::size_t alignment = 1024;

} // namespace

BufferRotation BufferRotation::of(std::span<void *const> buffers) {
  BufferRotation rotation;
  rotation.sets.emplace_back(buffers.begin(), buffers.end());
  return rotation;
}

Result<BufferRotation> BufferRotation::make(const ContextRef &context, std::span<void *const> buffers, CUdeviceptr room,
                                            std::size_t roomBytes) {
  Current current(*context);
  struct Allocation {
    std::size_t bytes, offset; ///< Offset in a set.
  };
  std::map<CUdeviceptr, Allocation> allocations;
  std::vector<CUdeviceptr> bases;
  std::size_t setBytes = 0;
  for (void *buffer : buffers) {
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    if (buffer != nullptr) // It is null of tensors without elements.
      KFUSE_DRIVER(context->api, cuMemGetAddressRange(&base, &bytes, devicePointer(buffer)));
    bases.push_back(base);
    if (allocations.try_emplace(base, Allocation{bytes, setBytes}).second)
      setBytes += (bytes + alignment - 1) / alignment * alignment;
  }
  BufferRotation rotation = of(buffers);
  const std::size_t copies = setBytes == 0 ? 0 : std::min(mostSets - 1, roomBytes / setBytes);
  for (std::size_t copy = 0; copy < copies; ++copy) {
    const CUdeviceptr set = room + copy * setBytes;
    for (const auto &[base, allocation] : allocations)
      if (allocation.bytes > 0)
        rotation.copies.push_back({set + allocation.offset, base, allocation.bytes});
    std::vector<void *> &pointers = rotation.sets.emplace_back();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const CUdeviceptr at = set + allocations.at(bases[i]).offset + (devicePointer(buffers[i]) - bases[i]);
      pointers.push_back(buffers[i] != nullptr ? std::bit_cast<void *>(at) : nullptr);
    }
  }
  return rotation;
}

Result<void> BufferRotation::fill(const ContextRef &context) const {
  Current current(*context);
  for (const Copy &copy : copies)
    KFUSE_DRIVER(context->api, cuMemcpyDtoDAsync(copy.to, copy.from, copy.bytes, nullptr));
  KFUSE_DRIVER(context->api, cuStreamSynchronize(nullptr));
  return {};
}

} // namespace kfuse::runtime::cuda
