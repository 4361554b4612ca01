// Memory that two processes see, by way of which buffers travel.
#pragma once

#include "kfuse/error.h"

#include <cstddef>

namespace kfuse::runtime::worker {

/// A file in memory, mapped whole. Pages nobody has touched cost nothing.
class SharedMemory {
public:
  static constexpr std::size_t bytes = 64 << 20;

  static Result<SharedMemory> make();
  /// Maps the file that another process made. Takes the descriptor over.
  static Result<SharedMemory> map(int descriptor);
  SharedMemory(SharedMemory &&other) noexcept;
  SharedMemory &operator=(SharedMemory &&other) noexcept;
  ~SharedMemory();

  std::byte *data() const { return memory; }
  int descriptor() const { return file; }

private:
  SharedMemory(int file, std::byte *memory) : file(file), memory(memory) {}

  int file;
  std::byte *memory;
};

} // namespace kfuse::runtime::worker
