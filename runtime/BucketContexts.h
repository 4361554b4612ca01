// The contexts of a model's programs, and the memory that a session of them has.
#pragma once

#include "runtime/Program.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kfuse::runtime {

/// A context of each bucket, or the one of a model whose runs give no lengths. They run one after the other, and share
/// one arena and one workspace, those of the largest; constants are each program's own.
class BucketContexts {
public:
  /// What they need of the device's memory.
  static std::uint64_t bytes(std::span<const Program *const> programs, std::size_t dims);
  /// In `memory`, bytes() aligned to contextAlignment which outlive them, or where that is empty in memory of their
  /// own.
  static Result<BucketContexts> make(Device &device, std::span<const Program *const> programs, std::size_t dims,
                                     std::span<std::byte> memory);

  Context &operator[](std::size_t bucket) { return *contexts[bucket]; }
  /// An i64 of each length, in that memory; null where there are none.
  void *lengths() const { return forLengths; }

private:
  std::unique_ptr<DeviceBuffer> own; ///< The memory, where none is given.
  void *forLengths = nullptr;
  std::vector<std::unique_ptr<Context>> contexts;
};

} // namespace kfuse::runtime
