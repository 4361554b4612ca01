// A file's bytes as memory, read when they are looked at.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <span>
#include <string>

namespace kfuse::runtime {

/// Mapped for as long as it lives. Who cuts the file short meanwhile ends the process, as with a library in use.
class MappedFile {
public:
  /// Io for what cannot be read, or is no plain file.
  static Result<MappedFile> open(const std::string &path);
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte *>(address), size}; }

private:
  void *address = nullptr;
  std::size_t size = 0;
};

} // namespace kfuse::runtime
