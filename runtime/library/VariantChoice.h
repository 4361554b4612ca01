// Which program of a pack runs, and on what.
#pragma once

#include "runtime/pack/Manifest.h"

#include <cstddef>
#include <string>

namespace kfuse::runtime {

/// What is asked for.
struct VariantWish {
  std::string target = "auto"; ///< "cpu", "gpu"; auto: the GPU where there is one that the pack has a program for.
  int device = 0;              ///< CUDA ordinal.
  std::string variant;         ///< As in selectVariant(); empty: $KFUSE_VARIANT.
};

struct VariantChoice {
  std::size_t variant = 0;
  bool isCpu = false;
};

/// Errors of selectVariant(); Usage for another target; NoDevice where there is none.
Result<VariantChoice> chooseVariant(const Manifest &manifest, const VariantWish &wish);

} // namespace kfuse::runtime
