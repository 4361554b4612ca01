// What a kernel may have, and what it may have without asking for more at its launch.
#pragma once

#include <cstdint>

namespace kfuse::codegen::cuda {

constexpr std::int64_t mostRegisters = 255;          ///< A thread names so many.
constexpr std::int64_t mostStaticShared = 48 * 1024; ///< Bytes of static shared memory.

/// Whether so many tensor maps and addresses fit a kernel's parameters: 4096 bytes, before CUDA 12.1.
constexpr bool fitParameters(std::int64_t maps, std::int64_t addresses) { return maps * 128 + addresses * 8 <= 4096; }

} // namespace kfuse::codegen::cuda
