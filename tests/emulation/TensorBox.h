// TMA's boxes: which bytes of a tensor they have, and where these lie in shared memory.
#pragma once

#include "codegen/KernelPlan.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::test {

/// What a recipe makes of a tensor in memory.
struct EmulatedTensor {
  codegen::TensorMapRecipe recipe;
  std::byte *start;

  unsigned elementBytes() const { return static_cast<unsigned>(byteWidth(recipe.type)); }
  unsigned boxBytes() const;
  /// Why TMA would not take the recipe, or "".
  std::string refusal() const;
  /// Visits the box at `place`, 16 bytes or an element at a time: where they lie in shared memory (of a box from
  /// address `shared` on), and in the tensor; null outside it.
  void forEachChunk(std::span<const int> place, unsigned shared,
                    const std::function<void(unsigned shared, std::byte *memory, unsigned bytes)> &visit) const;
};

/// Where TMA and wgmma place what a plain layout has at `address`: pieces of 16 bytes change places within 32, 64 or
/// 128 bytes (PTX ISA, "Swizzling modes").
inline unsigned swizzled(unsigned address, unsigned swizzleBytes) {
  return swizzleBytes == 0 ? address : address ^ (address >> 3 & (swizzleBytes - 16));
}

} // namespace kfuse::test
