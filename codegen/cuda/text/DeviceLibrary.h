// The CUDA sources that generated kernels include, embedded in the binary.
#pragma once

#include "codegen/DeviceHeader.h"

#include "llvm/ADT/StringRef.h"

#include <span>
#include <string>

namespace kfuse::codegen::cuda {

/// Every header, for the compiler to serve from memory.
std::span<const DeviceHeader> deviceHeaders();

/// A digest of the headers that the source includes, also through others. Part of a plan's compile options, so that a
/// change in the library is a change of the keys of the kernels that it touches, and of no others.
std::string deviceLibraryDigest(llvm::StringRef source, std::span<const DeviceHeader> headers = deviceHeaders());

} // namespace kfuse::codegen::cuda
