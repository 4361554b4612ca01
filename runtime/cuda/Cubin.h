// What can be told of a cubin without a driver.
#pragma once

#include <cstddef>
#include <span>

namespace kfuse::runtime::cuda {

/// Whether `image` is a whole 64-bit ELF file: its header, tables and sections lie inside it. The
/// driver is given no size and would read beyond a truncated one.
bool isWholeCubin(std::span<const std::byte> image);

} // namespace kfuse::runtime::cuda
