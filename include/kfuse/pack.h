// Packs: models that kfuse pack or Executable::save() compiled and wrote to a file, run without compiling anything.
// A pack is code: open those that you would run as programs. From C, and without this library: kfuse/runtime.h.
#pragma once

#include "kfuse/api.h"
#include "kfuse/compiler.h"
#include "kfuse/error.h"

#include <string>

namespace kfuse {

struct PackOptions {
  std::string target = "auto"; ///< "cpu"; "gpu"; auto: the GPU where there is one that the pack has a program for.
  int device = 0;              ///< CUDA device ordinal.
  int threads = 0;             ///< CPU threads; 0: all cores.
  /// The target or the SKU of the program to take ("compute_80", "NVIDIA H200"); empty: $KFUSE_VARIANT, else the best.
  std::string variant{};
  /// A safetensors file of parameters in place of the one that the pack names; empty: that one.
  std::string weights{};
  bool checkWeights = false; ///< The SHA-256 of those that the pack comes with is looked at, which takes 3 s a GB.
};

/// The program of a pack that fits the device best, whose prepare() takes parameters that are null from the pack, or
/// from its safetensors file, where it comes with them. Its kernels' code is checked against its seals. Io for a file
/// that cannot be read; BadModel for one that is no whole pack of this version; NoDevice, which lists what the pack
/// holds.
KFUSE_API Result<Executable> loadPack(const std::string &path, const PackOptions &options = {});

/// What a pack says of itself: the JSON object that `kfuse pack --inspect --json` prints. Reads its manifest alone.
KFUSE_API Result<std::string> describePack(const std::string &path);

} // namespace kfuse
