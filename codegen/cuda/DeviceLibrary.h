// The CUDA sources that generated kernels include, embedded in the binary.
#pragma once

#include "codegen/DeviceHeader.h"

#include <span>
#include <string>

namespace kfuse::codegen::cuda {

/// Every header, for the compiler to serve from memory.
std::span<const DeviceHeader> deviceHeaders();

/// A digest of them all. Part of a plan's compile options, so that a change in the library is a
/// change of every kernel's key.
const std::string &deviceLibraryDigest();

} // namespace kfuse::codegen::cuda
