// A file's bytes, mapped: weights are read from disk only where and when they are used.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace kfuse::ir {

class MappedFile {
public:
  /// Io when `path` is no readable regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte *>(data), size}; }

private:
  MappedFile(void *data, std::size_t size) : data(data), size(size) {}
  void *data;
  std::size_t size;
};

} // namespace kfuse::ir
