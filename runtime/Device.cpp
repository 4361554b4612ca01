#include "runtime/Device.h"

#include <cstring>

namespace kfuse::runtime {

/// FNV-1a (Fowler, Noll, Vo) over words instead of bytes.
Result<std::uint64_t> Device::digest(const void *device, std::size_t bytes) {
  std::vector<std::uint64_t> words((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  if (Result<void> read = download(words.data(), device, bytes); !read)
    return read.error();
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::uint64_t word : words)
    hash = (hash ^ word) * 0x100000001b3;
  return hash;
}

} // namespace kfuse::runtime
