// What a file may ask for: sizes are checked against these before anything is allocated.
#pragma once

#include "kfuse/types.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>

namespace kfuse::ir {

/// 1 TiB: more than any device's memory, and far from overflowing a byte count.
inline constexpr std::int64_t maxTensorBytes = std::int64_t{1} << 40;
inline constexpr std::size_t maxRank = 16;
/// Elements up to which constants are evaluated while importing. Shape arithmetic, position ids and
/// small masks stay below it; a mask of 1024 x 1024 is better computed where it is read.
inline constexpr std::int64_t maxFoldedElements = 64 * 1024;

/// Number of elements, or nothing when a size is negative or the tensor exceeds the limits.
inline std::optional<std::int64_t> checkedElementCount(llvm::ArrayRef<std::int64_t> dims, DType type) {
  std::int64_t limit = maxTensorBytes / static_cast<std::int64_t>(byteWidth(type)), count = 1;
  if (dims.size() > maxRank)
    return std::nullopt;
  bool isEmpty = false;
  for (std::int64_t size : dims) {
    if (size < 0 || (size > 0 && count > limit / size))
      return std::nullopt;
    isEmpty |= size == 0;
    count *= size > 0 ? size : 1;
  }
  return isEmpty ? 0 : count;
}

} // namespace kfuse::ir
