// A checksum of device memory, taken on the device.
#pragma once

#include "runtime/cuda/PrimaryContext.h"

#include <cstdint>

namespace kfuse::runtime::cuda {

/// Reads at the speed of memory: inputs of a gigabyte would take 50 ms over the bus, for each candidate.
class CudaDigest {
public:
  static Result<CudaDigest> make(const ContextRef &context, int multiprocessors);

  /// Differs whenever one of the memory's words does, whatever the word.
  Result<std::uint64_t> operator()(const void *device, std::size_t bytes) const;

private:
  CudaDigest() = default;

  ContextRef context;
  unsigned blocks = 0;
  Module module;
  CUfunction function = nullptr;
  Memory sum;
};

} // namespace kfuse::runtime::cuda
