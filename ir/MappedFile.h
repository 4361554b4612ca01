// A file's bytes as memory: what is large is read from disk only where and when it is used.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <span>
#include <string>

namespace kfuse {

/// Mapped for as long as it lives. Who cuts the file short meanwhile ends the process, as with a library in use.
class MappedFile {
public:
  /// Io when `path` is no readable regular file.
  static Result<MappedFile> open(const std::string &path);
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte *>(address), size}; }
  /// Where the file that was opened lies, behind all links: asked of the descriptor, so that no link that changes
  /// meanwhile matters. "" where /proc is not mounted.
  const std::string &place() const { return resolved; }

private:
  void *address = nullptr;
  std::size_t size = 0;
  std::string resolved;
};

} // namespace kfuse
