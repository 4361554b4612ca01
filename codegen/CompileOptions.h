// Names among KernelPlan::options that the compiler of every target knows.
#pragma once

#include <string_view>

namespace kfuse::codegen {

/// Each product and each sum is rounded by itself. NVRTC's name for it.
inline constexpr std::string_view noContraction = "--fmad=false";

} // namespace kfuse::codegen
