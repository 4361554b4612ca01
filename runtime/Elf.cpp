#include "runtime/Elf.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace kfuse::runtime {
namespace {

/// Whether `count` entries of `size` bytes at `offset` lie inside `image`.
bool holds(std::span<const std::byte> image, std::uint64_t offset, std::uint64_t count, std::uint64_t size) {
  return offset <= image.size() && (size == 0 || count <= (image.size() - offset) / size);
}

} // namespace

bool isWholeElf(std::span<const std::byte> image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof header)
    return false;
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_shentsize != sizeof(Elf64_Shdr) || !holds(image, header.e_shoff, header.e_shnum, header.e_shentsize) ||
      !holds(image, header.e_phoff, header.e_phnum, header.e_phentsize))
    return false;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && !holds(image, section.sh_offset, section.sh_size, 1))
      return false;
  }
  return true;
}

} // namespace kfuse::runtime
