#include "runtime/cuda/Nvrtc.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace kfuse::runtime::cuda {
namespace {

namespace fs = std::filesystem;

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> glob(const std::string &pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

/// LIB/libnvrtc-builtins.so.13.0, which every NVRTC has beside it.
std::vector<std::string> builtinsBeside(const fs::path &library) {
  return glob((library.parent_path() / "libnvrtc-builtins.so.*.*").string());
}

/// "13.0" of LIB/libnvrtc-builtins.so.13.0.88. Nothing where several versions share the folder.
std::optional<std::string> versionBeside(const fs::path &library) {
  std::set<std::string> versions;
  for (const std::string &path : builtinsBeside(library)) {
    std::string version = path.substr(path.rfind(".so.") + 4);
    versions.insert(version.substr(0, version.find('.', version.find('.') + 1)));
  }
  return versions.size() == 1 ? std::optional(*versions.begin()) : std::nullopt;
}

/// The file behind a dlopen handle, links resolved.
fs::path pathOf(void *handle) {
  link_map *map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void *>(&map)) != 0 || map == nullptr)
    return {};
  std::error_code failed;
  fs::path path = fs::canonical(map->l_name, failed);
  return failed ? fs::path() : path;
}

/// TOOLKIT/lib64/libnvrtc.so.13 -> TOOLKIT/include, where <cuda_bf16.h> is.
std::string includesBeside(const fs::path &library) {
  std::error_code failed;
  fs::path include = library.parent_path().parent_path() / "include";
  return fs::exists(include / "cuda_fp16.h", failed) ? include.string() : "";
}

template <class Function> bool look(void *library, const char *symbol, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

bool lookAll(void *library, Nvrtc &nvrtc) {
  return look(library, "nvrtcVersion", nvrtc.nvrtcVersion) &&
         look(library, "nvrtcGetErrorString", nvrtc.nvrtcGetErrorString) &&
         look(library, "nvrtcCreateProgram", nvrtc.nvrtcCreateProgram) &&
         look(library, "nvrtcDestroyProgram", nvrtc.nvrtcDestroyProgram) &&
         look(library, "nvrtcCompileProgram", nvrtc.nvrtcCompileProgram) &&
         look(library, "nvrtcGetProgramLogSize", nvrtc.nvrtcGetProgramLogSize) &&
         look(library, "nvrtcGetProgramLog", nvrtc.nvrtcGetProgramLog) &&
         look(library, "nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize) &&
         look(library, "nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN) &&
         look(library, "nvrtcGetPTXSize", nvrtc.nvrtcGetPTXSize) && look(library, "nvrtcGetPTX", nvrtc.nvrtcGetPTX);
}

} // namespace

Result<Nvrtc> Nvrtc::open(const std::vector<std::string> &libraries) {
  for (const std::string &library : libraries) {
    void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL); // Stays open for the process's life.
    Nvrtc nvrtc;
    int major = 0, minor = 0;
    if (handle == nullptr || !lookAll(handle, nvrtc) || nvrtc.nvrtcVersion(&major, &minor) != 0)
      continue;
    nvrtc.version = std::to_string(major) + "." + std::to_string(minor);
    nvrtc.hasCache = std::pair(major, minor) >= std::pair(12, 9);
    nvrtc.path = pathOf(handle).string();
    nvrtc.includePath = includesBeside(nvrtc.path);
    // NVRTC asks the loader for its builtins by name; those of a wheel are in no folder the loader knows, unless
    // they are loaded already.
    for (const std::string &builtins : builtinsBeside(nvrtc.path))
      dlopen(builtins.c_str(), RTLD_LAZY | RTLD_LOCAL);
    return nvrtc;
  }
  std::string missing = libraries.size() == 1 ? libraries.front() + " is not NVRTC" : "libnvrtc.so was not found";
  return Error{
      ErrorCode::NoDevice,
      "no CUDA compiler: " + missing +
          "; `pip install --target ~/.local/share/kfuse/cuda nvidia-cuda-nvrtc nvidia-cuda-runtime`, or install "
          "the CUDA toolkit, or set KFUSE_NVRTC to the library's path; --target cpu needs none"};
}

Result<const Nvrtc *> Nvrtc::get() {
  static const Result<Nvrtc> nvrtc = open(candidates());
  if (!nvrtc)
    return nvrtc.error();
  return &nvrtc.value();
}

Result<std::string> Nvrtc::findVersion() {
  for (const std::string &library : candidates()) {
    std::error_code failed;
    if (library.find('/') == std::string::npos || !fs::exists(library, failed))
      continue;
    if (std::optional<std::string> version = versionBeside(library))
      return *version;
    break; // Only the library itself knows.
  }
  Result<const Nvrtc *> nvrtc = get();
  return nvrtc ? Result<std::string>((*nvrtc)->version) : nvrtc.error();
}

std::vector<std::string> Nvrtc::candidates() {
  // Named by the user, it is that library or none.
  if (std::string named = environment("KFUSE_NVRTC"); !named.empty())
    return {named};
  std::vector<std::string> paths;
  auto append = [&](const std::string &pattern) {
    for (std::string &path : glob(pattern))
      paths.push_back(std::move(path));
  };
  std::istringstream folders(environment("LD_LIBRARY_PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty())
      append(folder + "/libnvrtc.so*");
  for (const std::string &root : {environment("CUDA_HOME"), environment("CUDA_PATH"), std::string("/usr/local/cuda"),
                                  std::string(KFUSE_CUDA_ROOT)})
    if (!root.empty())
      append(root + "/lib*/libnvrtc.so*");
  // Wheels keep it under nvidia/cu13/lib, or nvidia/cuda_nvrtc/lib up to CUDA 12.
  for (const std::string &prefix : {environment("VIRTUAL_ENV"), environment("CONDA_PREFIX"),
                                    environment("HOME") + "/.local", std::string("/usr/local"), std::string("/usr")})
    if (!prefix.empty())
      append(prefix + "/lib/python3*/*-packages/nvidia/cu*/lib/libnvrtc.so*");
  // tools/setup.sh puts them into the user's data folder.
  std::string data = environment("XDG_DATA_HOME");
  append((data.empty() ? environment("HOME") + "/.local/share" : data) + "/kfuse/cuda/nvidia/cu*/lib/libnvrtc.so*");
  // Wherever else the loader looks.
  paths.insert(paths.end(), {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  return paths;
}

} // namespace kfuse::runtime::cuda
