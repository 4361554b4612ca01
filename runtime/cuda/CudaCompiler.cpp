// CUDA C++ to cubin through NVRTC; needs no GPU.
#include "runtime/Device.h"
#include "runtime/cuda/Nvrtc.h"
#include "runtime/cuda/PtxasLog.h"

#include <chrono>

namespace kfuse::runtime {
namespace {

using codegen::DeviceHeader;
using cuda::Nvrtc;

/// One compilation unit of NVRTC.
class Unit {
public:
  explicit Unit(const Nvrtc &nvrtc) : nvrtc(nvrtc) {}
  ~Unit() {
    if (handle)
      nvrtc.nvrtcDestroyProgram(&handle);
  }
  Unit(const Unit &) = delete;
  Unit &operator=(const Unit &) = delete;

  Result<void> create(const codegen::KernelPlan &plan, const std::vector<const char *> &headers,
                      const std::vector<const char *> &headerNames) {
    std::string file = plan.name + ".cu";
    return check(nvrtc.nvrtcCreateProgram(&handle, plan.source.c_str(), file.c_str(), static_cast<int>(headers.size()),
                                          headers.data(), headerNames.data()));
  }

  Result<void> compile(const std::vector<std::string> &options) {
    std::vector<const char *> texts;
    texts.reserve(options.size());
    for (const std::string &option : options)
      texts.push_back(option.c_str());
    return check(nvrtc.nvrtcCompileProgram(handle, static_cast<int>(texts.size()), texts.data()));
  }

  std::string log() const { return text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog); }
  /// PTX.
  std::string assembly() const { return text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX); }

  Result<std::vector<std::byte>> image() const {
    std::size_t size = 0;
    if (Result<void> sized = check(nvrtc.nvrtcGetCUBINSize(handle, &size)); !sized)
      return sized.error();
    std::vector<std::byte> bytes(size);
    if (Result<void> read = check(nvrtc.nvrtcGetCUBIN(handle, reinterpret_cast<char *>(bytes.data()))); !read)
      return read.error();
    return bytes;
  }

private:
  /// What a pair of NVRTC's functions gives; "" where there is nothing.
  std::string text(int (*sizeOf)(Nvrtc::Program, std::size_t *), int (*read)(Nvrtc::Program, char *)) const {
    std::size_t size = 0; // Counts the final zero.
    if (sizeOf(handle, &size) != 0 || size <= 1)
      return "";
    std::string result(size, '\0');
    read(handle, result.data());
    result.resize(size - 1);
    return result;
  }

  Result<void> check(int result) const {
    if (result == 0)
      return {};
    return Error{ErrorCode::Compile, nvrtc.nvrtcGetErrorString(result)};
  }

  const Nvrtc &nvrtc;
  Nvrtc::Program handle = nullptr;
};

/// PTX as the driver takes it. For a target without machine code NVRTC makes nothing else.
std::vector<std::byte> zeroEnded(const std::string &text) {
  const auto *first = reinterpret_cast<const std::byte *>(text.c_str());
  return {first, first + text.size() + 1};
}

class CudaCompiler final : public KernelCompiler {
public:
  CudaCompiler(std::string nvrtcVersion, std::span<const DeviceHeader> headers)
      : nvrtcVersion(std::move(nvrtcVersion)), headers(headers.begin(), headers.end()) {
    for (const DeviceHeader &header : this->headers) {
      texts.push_back(header.text.c_str());
      names.push_back(header.name.c_str());
    }
  }

  std::string version() const override { return "nvrtc " + nvrtcVersion; }
  Result<CompiledKernel> compile(const codegen::KernelPlan &plan) override;

private:
  static std::vector<std::string> options(const Nvrtc &nvrtc, const codegen::KernelPlan &plan);

  std::string nvrtcVersion;
  std::vector<DeviceHeader> headers;
  std::vector<const char *> texts, names; // Those of `headers`.
};

Result<CompiledKernel> CudaCompiler::compile(const codegen::KernelPlan &plan) {
  auto failed = [&](const std::string &why) {
    return Error{ErrorCode::Compile, "kernel '" + plan.name + "' does not compile for " + plan.target + ": " + why};
  };
  Result<const Nvrtc *> nvrtc = Nvrtc::get(); // Opened by the first kernel that the store lacks.
  if (!nvrtc)
    return nvrtc.error();
  auto begin = std::chrono::steady_clock::now();
  Unit unit(**nvrtc);
  if (Result<void> created = unit.create(plan, texts, names); !created)
    return failed(created.error().message);
  Result<void> compiled = unit.compile(options(**nvrtc, plan));
  std::string log = unit.log();
  if (!compiled)
    return failed(log.empty() ? compiled.error().message : cuda::firstErrorLine(log));
  std::string assembly = unit.assembly();
  Result<std::vector<std::byte>> image = plan.target.starts_with("compute_") ? zeroEnded(assembly) : unit.image();
  if (!image)
    return failed(image.error().message);
  std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  return CompiledKernel{std::move(*image), cuda::parseResourceFacts(log), spent.count(), std::move(log),
                        std::move(assembly)};
}

std::vector<std::string> CudaCompiler::options(const Nvrtc &nvrtc, const codegen::KernelPlan &plan) {
  std::vector<std::string> options{"--gpu-architecture=" + plan.target, "--std=c++20", "--ptxas-options=-v"};
  if (nvrtc.hasCache) // What comes out of the driver's cache comes without ptxas's report: a spill would go unseen.
    options.emplace_back("--no-cache");
  if (!nvrtc.includePath.empty())
    options.push_back("--include-path=" + nvrtc.includePath);
  options.insert(options.end(), plan.options.begin(), plan.options.end());
  return options;
}

} // namespace

Result<std::unique_ptr<KernelCompiler>> makeCudaCompiler(std::span<const DeviceHeader> headers) {
  Result<std::string> version = Nvrtc::findVersion();
  if (!version)
    return version.error();
  return std::unique_ptr<KernelCompiler>(std::make_unique<CudaCompiler>(std::move(*version), headers));
}

} // namespace kfuse::runtime
