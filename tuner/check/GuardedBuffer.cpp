#include "tuner/check/GuardedBuffer.h"

#include "tuner/check/OutputCheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kfuse::tuner {

Result<void> uploadRepeated(runtime::Device &device, void *to, std::size_t bytes, std::span<const std::byte> piece) {
  if (piece.empty() && bytes > 0)
    return Error{ErrorCode::Internal, fmt::format("nothing was given to be repeated in {} bytes of a buffer", bytes)};
  std::size_t written = std::min(piece.size(), bytes);
  if (Result<void> uploaded = device.upload(to, piece.data(), written); !uploaded || written == bytes)
    return uploaded;
  for (std::size_t count = 0; written < bytes; written += count) {
    count = std::min(written, bytes - written); // Whole pieces, so that the next one goes on where they end.
    if (Result<void> copied = device.copy(nullptr, static_cast<std::byte *>(to) + written, to, count); !copied)
      return copied;
  }
  return device.synchronize(nullptr);
}

Result<GuardedBuffer> GuardedBuffer::make(runtime::Device &device, std::size_t bytes) {
  GuardedBuffer buffer(device);
  if (Result<void> sized = buffer.resize(bytes); !sized)
    return sized.error();
  return buffer;
}

Result<void> GuardedBuffer::resize(std::size_t size) {
  if (!memory || memory->size() < size + 2 * guardBytes) {
    memory.reset();
    Result<std::unique_ptr<runtime::DeviceBuffer>> allocated = device->allocate(size + 2 * guardBytes);
    if (!allocated)
      return allocated.error();
    memory = std::move(*allocated);
  }
  bytes = size;
  if (Result<void> filled = device->fill(memory->data(), poison, guardBytes); !filled)
    return filled;
  return device->fill(static_cast<std::byte *>(data()) + bytes, poison, guardBytes);
}

Result<void> GuardedBuffer::poisonAll() { return device->fill(memory->data(), poison, bytes + 2 * guardBytes); }

Result<std::optional<std::string>> GuardedBuffer::findOverrun() const {
  const auto *start = static_cast<const std::byte *>(memory->data());
  for (auto [guard, words] : {std::pair(start, "wrote before the start of"),
                              std::pair(start + guardBytes + bytes, "wrote behind the end of")}) {
    std::array<std::byte, guardBytes> found{};
    if (Result<void> read = device->download(found.data(), guard, guardBytes); !read)
      return read.error();
    if (!std::all_of(found.begin(), found.end(), [](std::byte byte) { return byte == std::byte{poison}; }))
      return std::optional<std::string>(words);
  }
  return std::optional<std::string>();
}

} // namespace kfuse::tuner
