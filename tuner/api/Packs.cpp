#include "tuner/api/Packs.h"

#include "kfuse/pack.h"
#include "runtime/CudaTarget.h"
#include "runtime/host/CpuFeatures.h"
#include "runtime/library/VariantChoice.h"
#include "tuner/api/NoThrow.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace kfuse {
namespace tuner {
namespace {

/// "nvrtc 13.0" -> 13000, as cuDriverGetVersion() counts; 0 of another compiler.
int cudaOf(const std::string &compiler) {
  int major = 0, minor = 0;
  return std::sscanf(compiler.c_str(), "nvrtc %d.%d", &major, &minor) == 2 ? 1000 * major + 10 * minor : 0;
}

/// Blocks wait for others of their grid, all of which must run, from Hopper on alone (partial_sums.cuh).
bool mayWaitForBlocks(const std::string &target) {
  const std::optional<runtime::CudaTarget> cuda = runtime::parseCudaTarget(target);
  return cuda && cuda->capability >= 90;
}

/// What a block of the program takes at most.
int sharedBytesOf(const runtime::Program &program) {
  int most = 0;
  for (const runtime::ProgramKernel &kernel : program.kernels)
    for (const codegen::Launch &launch : kernel.plan.launches)
      most = std::max(most, static_cast<int>(launch.sharedBytes) + kernel.binary.facts.staticSharedBytes);
  return most;
}

/// Microseconds of a run, where its kernels were timed.
std::optional<double> timeOf(const TuneReport &report) {
  if (report.isDeviceHere && report.endToEnd)
    return report.endToEnd->us;
  return report.isDeviceHere ? report.totalUs() : std::nullopt;
}

nlohmann::json describe(const std::vector<TensorDesc> &tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const TensorDesc &tensor : tensors)
    list.push_back({{"name", tensor.name}, {"type", toString(tensor.type)}, {"shape", tensor.shape}});
  return list;
}

} // namespace

Packed packedOf(const CompiledModel &compiled) {
  const bool isCpu = compiled.main.target == "cpu";
  runtime::PackVariant variant;
  variant.target = compiled.main.target;
  variant.multiprocessors = mayWaitForBlocks(variant.target) ? compiled.multiprocessors : 0;
  variant.sharedBytes = std::max(sharedBytesOf(compiled.main), compiled.prepare ? sharedBytesOf(*compiled.prepare) : 0);
  variant.cuda = cudaOf(compiled.compiler);
  if (isCpu)
    variant.features = runtime::cpuFeatures();
  variant.compiler = compiled.compiler;
  if (const std::optional<double> us = timeOf(compiled.report)) {
    variant.sku = compiled.report.device;
    variant.nanoseconds = static_cast<std::uint64_t>(std::llround(*us * 1e3));
  }
  variant.plan = toJson(compiled.report);
  return {std::move(variant), {compiled.main, compiled.prepare}};
}

Result<Packed> asPtx(Packed packed, const std::string &target, runtime::KernelCompiler &compiler) {
  auto &[variant, programs] = packed;
  variant.target = target;
  variant.sku.clear();
  variant.nanoseconds = 0;
  for (runtime::Program *program : {&programs.main, programs.prepare ? &*programs.prepare : nullptr}) {
    if (!program)
      continue;
    program->target = variant.target;
    for (runtime::ProgramKernel &kernel : program->kernels) {
      kernel.plan.target = variant.target;
      Result<runtime::CompiledKernel> compiled = compiler.compile(kernel.plan);
      if (!compiled)
        return compiled.error();
      kernel.binary.image = std::move(compiled->image);
    }
  }
  return packed;
}

runtime::Manifest manifestOf(const Edges &edges, std::vector<int> updatedStates, std::string name) {
  runtime::Manifest manifest;
  manifest.model = std::move(name);
  manifest.tool = "kfuse " KFUSE_VERSION;
  manifest.inputs = edges.inputs;
  manifest.parameters = edges.parameters;
  manifest.states = edges.states;
  manifest.outputs = edges.outputs;
  manifest.updatedStates = std::move(updatedStates);
  return manifest;
}

std::string describe(const runtime::Pack &pack) {
  const runtime::Manifest &manifest = pack.manifest();
  nlohmann::json variants = nlohmann::json::array();
  for (const runtime::PackVariant &variant : manifest.variants) {
    std::size_t codeBytes = 0;
    for (std::uint32_t section : variant.main.code)
      codeBytes += section < pack.file().size() ? pack.file().bytes(section) : 0;
    nlohmann::json us = variant.nanoseconds ? nlohmann::json(double(variant.nanoseconds) / 1e3) : nlohmann::json();
    variants.push_back({{"target", variant.target},
                        {"sku", variant.sku},
                        {"multiprocessors", variant.multiprocessors},
                        {"features", variant.features},
                        {"compiler", variant.compiler},
                        {"kernels", variant.main.code.size()},
                        {"code_bytes", codeBytes},
                        {"measured_us", us},
                        {"plan", nlohmann::json::parse(variant.plan, nullptr, /*allow_exceptions=*/false)}});
  }
  return nlohmann::json{{"model", manifest.model},
                        {"tool", manifest.tool},
                        {"inputs", describe(manifest.inputs)},
                        {"parameters", describe(manifest.parameters)},
                        {"states", describe(manifest.states)},
                        {"outputs", describe(manifest.outputs)},
                        {"holds_weights", !manifest.weights.empty() && pack.holdsWeights()},
                        {"variants", variants}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

Result<Model> modelOfPack(const std::string &path) {
  Result<runtime::Pack> opened = runtime::Pack::open(path);
  if (!opened)
    return opened.error();
  const auto pack = std::make_shared<const runtime::Pack>(std::move(*opened));
  const runtime::Manifest &manifest = pack->manifest();
  auto impl = std::make_shared<Model::Impl>();
  impl->edges = {manifest.inputs, manifest.parameters, manifest.states, manifest.outputs};
  for (std::size_t i = 0; i < manifest.parameters.size(); ++i) {
    Result<std::span<const std::byte>> bytes = pack->weights(i);
    if (!bytes)
      return bytes.error();
    const TensorDesc &parameter = manifest.parameters[i];
    if (!bytes->empty())
      impl->model.parameters[parameter.name] = {parameter.type, parameter.shape, *bytes, pack};
  }
  return Model(std::move(impl));
}

} // namespace tuner

namespace {

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

/// Replaces the file as a whole.
Result<void> write(const std::string &path, std::span<const std::byte> bytes) {
  const std::string draft = path + ".part-" + std::to_string(getpid());
  auto failed = [&] {
    return Error{ErrorCode::Io, "the pack " + path + " cannot be written: " + std::strerror(errno)};
  };
  std::FILE *file = std::fopen(draft.c_str(), "wbx"); // This call's alone.
  if (!file)
    return failed();
  const bool isWritten = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (std::fclose(file) == 0 && isWritten && std::rename(draft.c_str(), path.c_str()) == 0)
    return {};
  const Error error = failed();
  std::remove(draft.c_str());
  return error;
}

Result<std::shared_ptr<Executable::Impl>> load(const std::string &path, const PackOptions &options) {
  Result<runtime::Pack> pack = runtime::Pack::open(path);
  if (!pack)
    return pack.error();
  const runtime::Manifest manifest = pack->manifest();
  Result<runtime::VariantChoice> chosen =
      runtime::chooseVariant(manifest, {options.target, options.device, options.variant});
  if (!chosen)
    return chosen.error();
  Result<runtime::VariantPrograms> programs = pack->load(chosen->variant);
  if (!programs)
    return programs.error();
  Result<std::unique_ptr<runtime::Device>> device =
      chosen->isCpu ? Result(runtime::openCpu(options.threads)) : runtime::openCuda(options.device);
  if (!device)
    return device.error();
  auto impl = std::make_shared<Executable::Impl>();
  impl->device = std::move(*device);
  impl->ordinal = chosen->isCpu ? -1 : options.device;
  impl->edges = {manifest.inputs, manifest.parameters, manifest.states, manifest.outputs};
  impl->updatedStates = manifest.updatedStates;
  impl->pack = std::make_shared<const runtime::Pack>(std::move(*pack));
  impl->packedPlan = manifest.variants[chosen->variant].plan;
  tuner::CompiledModel &compiled = impl->programs.emplace_back().compiled;
  compiled.main = std::move(programs->main);
  compiled.prepare = std::move(programs->prepare);
  compiled.report.device = impl->device->sku();
  if (compiled.prepare)
    for (const TensorDesc &result : compiled.prepare->results)
      compiled.preparedKeys.push_back(result.name);
  return impl;
}

} // namespace

Result<void> Executable::Impl::save(const Impl &impl, const std::string &path) {
  if (!impl.dims.empty())
    return usage(
        "a pack holds programs of fixed sizes, this one's runs give lengths; compile the model with its shapes");
  if (!impl.packedPlan.empty())
    return usage("this program came from a pack; copy that file");
  runtime::PackContents contents{tuner::manifestOf(impl.edges, impl.updatedStates, impl.compiled().main.name)};
  contents.variants.push_back(tuner::packedOf(impl.compiled()));
  return write(path, runtime::writePack(std::move(contents)));
}

Result<void> Executable::save(const std::string &path) const {
  if (!impl)
    return usage(movedFrom("Executable"));
  return withoutThrowing([&] { return Impl::save(*impl, path); });
}

Result<Executable> loadPack(const std::string &path, const PackOptions &options) {
  return withoutThrowing([&]() -> Result<Executable> {
    Result<std::shared_ptr<Executable::Impl>> loaded = load(path, options);
    if (!loaded)
      return loaded.error();
    return Executable(std::move(*loaded));
  });
}

Result<std::string> describePack(const std::string &path) {
  return withoutThrowing([&]() -> Result<std::string> {
    Result<runtime::Pack> pack = runtime::Pack::open(path);
    if (!pack)
      return pack.error();
    return tuner::describe(*pack);
  });
}

} // namespace kfuse
