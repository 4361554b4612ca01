// What can be told of machine code without its device: cubins and objects for the CPU are ELF files.
#pragma once

#include <cstddef>
#include <span>

namespace kfuse::runtime {

/// Whether `image` is a whole 64-bit ELF file: its header, tables and sections lie inside it. The
/// driver is given no size and would read beyond a truncated one.
bool isWholeElf(std::span<const std::byte> image);

} // namespace kfuse::runtime
