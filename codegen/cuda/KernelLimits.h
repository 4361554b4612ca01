// What a kernel may have without asking for more at its launch.
#pragma once

#include <cstdint>

namespace kfuse::codegen::cuda {

constexpr std::int64_t mostStaticShared = 48 * 1024; ///< Bytes of static shared memory.

} // namespace kfuse::codegen::cuda
