// NVRTC, NVIDIA's compiler as a library, opened when it is first needed.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <string>
#include <vector>

namespace kfuse::runtime::cuda {

/// The functions of libnvrtc, declared here so that kfuse builds without its header. The ABI has
/// been the same since CUDA 11; nvrtcResult is an enum that is 0 on success.
struct Nvrtc {
  using Program = struct OpaqueProgram *;

  int (*nvrtcVersion)(int *major, int *minor) = nullptr;
  const char *(*nvrtcGetErrorString)(int result) = nullptr;
  int (*nvrtcCreateProgram)(Program *program, const char *source, const char *name, int headerCount,
                            const char *const *headers, const char *const *includeNames) = nullptr;
  int (*nvrtcDestroyProgram)(Program *program) = nullptr;
  int (*nvrtcCompileProgram)(Program program, int optionCount, const char *const *options) = nullptr;
  int (*nvrtcGetProgramLogSize)(Program program, std::size_t *size) = nullptr;
  int (*nvrtcGetProgramLog)(Program program, char *log) = nullptr;
  int (*nvrtcGetCUBINSize)(Program program, std::size_t *size) = nullptr;
  int (*nvrtcGetCUBIN)(Program program, char *image) = nullptr;
  int (*nvrtcGetPTXSize)(Program program, std::size_t *size) = nullptr;
  int (*nvrtcGetPTX)(Program program, char *text) = nullptr;

  std::string version;     ///< "13.0"
  bool hasCache = false;   ///< Keeps what it compiles in the driver's cache (12.9 and later).
  std::string path;        ///< The library that was opened.
  std::string includePath; ///< The CUDA headers beside it, or "".

  /// Opens the first of `libraries` that is NVRTC.
  static Result<Nvrtc> open(const std::vector<std::string> &libraries);
  /// The machine's NVRTC, opened by the first caller; NoDevice with what to install.
  static Result<const Nvrtc *> get();
  /// The version get() will have, from the names of its files: opening it reads 100 MB, for which a run that
  /// finds every kernel in the store has no use. Opens it where the names do not tell.
  static Result<std::string> findVersion();
  /// Where it may be, in the order it is looked for: $KFUSE_NVRTC, LD_LIBRARY_PATH, CUDA_HOME and
  /// CUDA_PATH, the toolkit's usual place, the toolkit kfuse was built with, NVIDIA's PyPI wheels in
  /// Python's folders and in the user's data folder, the loader's other folders.
  static std::vector<std::string> candidates();
};

} // namespace kfuse::runtime::cuda
