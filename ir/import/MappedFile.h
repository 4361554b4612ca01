// A file's bytes, mapped: weights are read from disk only where and when they are used.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace kfuse::ir {

class MappedFile {
public:
  /// Io when `path` is no readable regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  /// Where the file that was opened lies, behind all links: asked of the descriptor, so that no link that changes
  /// meanwhile matters. "" where /proc is not mounted.
  const std::string &place() const { return resolved; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte *>(data), size}; }

private:
  MappedFile(void *data, std::size_t size, std::string place) : data(data), size(size), resolved(std::move(place)) {}
  void *data;
  std::size_t size;
  std::string resolved;
};

} // namespace kfuse::ir
