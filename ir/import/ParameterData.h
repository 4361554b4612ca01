// A parameter's elements where a file left them.
#pragma once

#include "kfuse/types.h"

#include <cstddef>
#include <memory>
#include <span>

namespace kfuse::ir {

/// In memory or in a mapped file: dense, row-major, and at any alignment.
struct ParameterData {
  DType type = DType::F32;
  Shape shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner; ///< Keeps `bytes` valid.
};

} // namespace kfuse::ir
