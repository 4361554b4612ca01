// Writes packs.
#pragma once

#include "runtime/pack/Pack.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace kfuse::runtime {

/// What a pack is made of: each variant with its programs.
struct PackContents {
  Manifest manifest; ///< Without variants and weights.
  /// Per parameter: its bytes, or none where the caller of a run gives them. Empty where he gives all.
  std::vector<std::span<const std::byte>> weights{};
  /// Each has a program for each bucket, else one in all.
  std::vector<std::pair<PackVariant, std::vector<VariantPrograms>>> variants{};
};

/// The bytes of a pack. Kernels of several programs that are the same lie in it once, and without their sources.
std::vector<std::byte> writePack(PackContents contents);

} // namespace kfuse::runtime
