// Device memory between two poisoned guards, which show whether a kernel wrote outside of it.
#pragma once

#include "runtime/Device.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace kfuse::tuner {

/// Writes `piece` to `bytes` bytes of device memory, again and again; the last one may be cut off. It is uploaded once
/// and what is there copied: a gigabyte over the bus took a quarter of a second. Internal for bytes without a piece.
Result<void> uploadRepeated(runtime::Device &device, void *to, std::size_t bytes, std::span<const std::byte> piece);

class GuardedBuffer {
public:
  /// The bytes of each guard: a page, so that data keep the alignment of their allocation up to that.
  static constexpr std::size_t guardBytes = 4096;

  /// Contents undefined, guards poisoned. `device` must outlive it.
  static Result<GuardedBuffer> make(runtime::Device &device, std::size_t bytes);

  void *data() const { return memory ? static_cast<std::byte *>(memory->data()) + guardBytes : nullptr; }
  std::size_t size() const { return bytes; }
  /// The same as made anew; the memory is kept where it suffices.
  Result<void> resize(std::size_t size);
  /// Poisons the data, too.
  Result<void> poisonAll();
  /// "wrote before the start of", "wrote behind the end of", or nothing.
  Result<std::optional<std::string>> findOverrun() const;

private:
  explicit GuardedBuffer(runtime::Device &device) : device(&device) {}

  runtime::Device *device;
  std::unique_ptr<runtime::DeviceBuffer> memory;
  std::size_t bytes = 0;
};

} // namespace kfuse::tuner
