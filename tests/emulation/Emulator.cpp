#include "tests/emulation/Emulator.h"

#include "codegen/cuda/text/DeviceLibrary.h"
#include "kfuse/error.h"
#include "runtime/Residency.h"
#include "tests/emulation/Api.h"
#include "tests/emulation/TensorBox.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

namespace kfuse::test {
namespace {

using codegen::KernelArg;
using codegen::Launch;
using reference::HostTensor;

/// The source, whose products of warpgroups ask the emulator: each is a statement of inline assembly
/// (codegen/cuda/matmul/Tma.cpp).
std::string withoutAssembly(std::string source) {
  const std::string instruction = "wgmma.mma_async.sync.aligned.", immediates = " p, ", operands = "(accumulate));";
  for (std::size_t begin; (begin = source.find("asm volatile(\"{")) != std::string::npos;) {
    const std::size_t name = source.find(instruction, begin) + instruction.size(), rest = source.find("}, %", name),
                      values = source.find(immediates, rest) + immediates.size(),
                      end = source.find(operands, values) + operands.size();
    const std::string text = source.substr(name, source.find(' ', name) - name + 1) +
                             source.substr(values, source.find(';', values) - values);
    if (end < begin || values < rest || rest < name)
      return "#error another form of assembly than the emulator reads\n";
    const bool areRowsInRegisters = source.substr(name, rest - name).find("}, {") != std::string::npos;
    source.replace(begin, end - begin,
                   (areRowsInRegisters ? "multiplyRows(\"" : "emulator->multiply(\"") + text +
                       "\", d, rows, columns, accumulate);");
  }
  return source;
}

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "kfuse-emulation-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

/// Compiles `source` to `result`, in any case with the same options: a precompiled header demands it.
std::optional<Error> compile(const std::filesystem::path &source, const std::filesystem::path &result,
                             const std::string &options) {
  const std::string log = result.string() + ".log",
                    command = KFUSE_HOST_COMPILER KFUSE_HOST_OPTIONS " -std=c++20 -O0 -w -fPIC " + options + " -o " +
                              result.string() + " " + source.string() + " 2>" + log;
  if (std::system(command.c_str()) == 0)
    return std::nullopt;
  std::ifstream stream(log);
  return Error{ErrorCode::Compile, std::string(std::istreambuf_iterator<char>(stream), {})};
}

/// The device library for the host, precompiled once in a process: reading it is most of what a small kernel costs.
class DeviceHeaders {
public:
  static Result<const DeviceHeaders *> get() {
    static const DeviceHeaders headers;
    if (headers.error)
      return *headers.error;
    return &headers;
  }

  /// With which a kernel is compiled.
  std::string options() const { return includes + " -include " + header.string(); }

private:
  DeviceHeaders() {
    const std::string tests = KFUSE_TEST_DIR;
    includes = "-I" + tests + "/.. -I" + tests + "/emulation/device -I" + folder.path.string();
    std::filesystem::create_directories(folder.path / "kfuse");
    for (const codegen::DeviceHeader &device : codegen::cuda::deviceHeaders())
      if (!device.name.starts_with("kfuse/ptx"))
        std::ofstream(folder.path / device.name) << device.text;
    std::ofstream(header) << "#include <tests/emulation/device/host.h>\n#include <kfuse/ptx_sm90.cuh>\n";
    error = compile(header, header.string() + ".gch", includes + " -x c++-header"); // Found by both compilers.
  }

  Folder folder;
  std::filesystem::path header = folder.path / "device.h";
  std::string includes;
  std::optional<Error> error;
};

/// The kernel as a shared library of the host.
Result<std::filesystem::path> buildLibrary(const codegen::KernelPlan &plan, const std::filesystem::path &folder) {
  Result<const DeviceHeaders *> headers = DeviceHeaders::get();
  if (!headers)
    return headers.error();
  std::filesystem::path source = folder / "kernel.cpp", library = folder / "kernel.so";
  std::ofstream(source) << withoutAssembly(plan.source);
  if (std::optional<Error> error = compile(source, library, "-shared " + (*headers)->options()))
    return *error;
  return library;
}

} // namespace

Result<EmulatedKernel> EmulatedKernel::compile(const codegen::KernelPlan &plan) {
  Folder folder; // An open library outlives its file.
  Result<std::filesystem::path> file = buildLibrary(plan, folder.path);
  if (!file)
    return file.error();
  EmulatedKernel kernel;
  kernel.plan = plan;
  std::size_t blocks = 1;
  for (const Launch &launch : plan.launches)
    blocks = std::max(blocks, Grid::blocksAtOnce(launch));
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::filesystem::path copy = folder.path / ("copy" + std::to_string(i) + ".so");
    std::filesystem::copy_file(*file, copy);
    kernel.libraries.emplace_back(dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL), dlclose);
    if (!kernel.libraries.back())
      return Error{ErrorCode::Compile, dlerror()};
    reinterpret_cast<void (*)(const EmulatorApi *)>(dlsym(kernel.libraries.back().get(), "setEmulator"))(
        &emulatorApi());
  }
  return kernel;
}

std::optional<EmulatedKernel> EmulatedKernel::on(int multiprocessors) const {
  EmulatedKernel other = *this;
  other.plan = runtime::planOn(plan, multiprocessors);
  return other.plan == plan ? std::nullopt : std::optional(std::move(other));
}

Result<std::vector<HostTensor>> EmulatedKernel::run(std::span<const HostTensor> inputs, std::span<const int> states,
                                                    Copies when) const {
  // Aligned as device memory is.
  auto place = [](const std::vector<std::byte> &bytes) {
    std::shared_ptr<std::byte> memory(static_cast<std::byte *>(aligned_alloc(256, (bytes.size() + 511) / 256 * 256)),
                                      free);
    std::memcpy(memory.get(), bytes.data(), bytes.size());
    return memory;
  };
  std::vector<std::shared_ptr<std::byte>> buffers;
  std::vector<HostTensor> outputs;
  for (const HostTensor &input : inputs)
    buffers.push_back(place(input.bytes));
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    HostTensor output = HostTensor::zeros(plan.outputs[i].type, plan.outputs[i].shape);
    std::fill(output.bytes.begin(), output.bytes.end(), std::byte{0xff});
    buffers.push_back(states[i] >= 0 ? buffers[states[i]] : place(output.bytes));
    outputs.push_back(std::move(output));
  }
  auto workspace = place(std::vector<std::byte>(plan.workspaceBytes + 1, std::byte{0xff}));
  std::memset(workspace.get(), 0, plan.zeroedBytes);
  std::vector<EmulatedTensor> tensors;
  for (const codegen::TensorMapRecipe &recipe : plan.tensorMaps)
    tensors.push_back(
        {recipe, (recipe.inWorkspace ? workspace.get() : buffers[recipe.buffer].get()) + recipe.offsetBytes});
  for (const EmulatedTensor &tensor : tensors)
    if (std::string refusal = tensor.refusal(); !refusal.empty())
      return Error{ErrorCode::WrongResult, refusal};

  for (const Launch &launch : plan.launches) {
    std::vector<void *> arguments;
    for (const KernelArg &arg : launch.args)
      arguments.push_back(arg.kind == KernelArg::Kind::Buffer      ? static_cast<void *>(buffers[arg.index].get())
                          : arg.kind == KernelArg::Kind::Workspace ? workspace.get() + arg.index
                                                                   : static_cast<void *>(&tensors[arg.index]));
    if (arguments.size() > Library::mostArguments)
      return Error{ErrorCode::WrongResult, "more arguments than the emulator passes"};
    std::vector<Library> copies;
    for (const std::shared_ptr<void> &library : libraries) {
      void *entry = dlsym(library.get(), launch.entry.c_str());
      if (!entry)
        return Error{ErrorCode::WrongResult, "no entry " + launch.entry};
      std::size_t bytes = 0;
      auto *variables =
          reinterpret_cast<unsigned char *(*)(std::size_t *)>(dlsym(library.get(), "sharedVariables"))(&bytes);
      copies.push_back({entry, {variables, bytes}});
    }
    if (std::string failure = Grid(launch, copies, std::move(arguments), when).run(); !failure.empty())
      return Error{ErrorCode::WrongResult, failure};
  }
  if (std::any_of(workspace.get(), workspace.get() + plan.zeroedBytes,
                  [](std::byte byte) { return byte != std::byte{}; }))
    return Error{ErrorCode::WrongResult, "scratch memory is not left zero"};
  for (std::size_t i = 0; i < outputs.size(); ++i)
    std::memcpy(outputs[i].bytes.data(), buffers[inputs.size() + i].get(), outputs[i].bytes.size());
  return outputs;
}

} // namespace kfuse::test
