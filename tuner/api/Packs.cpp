#include "tuner/api/Packs.h"

#include "kfuse/pack.h"
#include "runtime/Residency.h"
#include "runtime/host/CpuFeatures.h"
#include "runtime/library/VariantChoice.h"
#include "runtime/pack/PackWriter.h"
#include "tuner/api/NoThrow.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>
#include <unistd.h>

namespace kfuse {
namespace tuner {
namespace {

/// "nvrtc 13.0" -> 13000, as cuDriverGetVersion() counts; 0 of another compiler.
int cudaOf(const std::string &compiler) {
  int major = 0, minor = 0;
  return std::sscanf(compiler.c_str(), "nvrtc %d.%d", &major, &minor) == 2 ? 1000 * major + 10 * minor : 0;
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

/// Compiles the kernels of `program` for `target`.
Result<void> compileAs(runtime::Program &program, const std::string &target, runtime::KernelCompiler &compiler) {
  program.target = target;
  for (runtime::ProgramKernel &kernel : program.kernels) {
    kernel.plan.target = target;
    Result<runtime::CompiledKernel> compiled = compiler.compile(kernel.plan);
    if (!compiled)
      return compiled.error();
    kernel.binary.image = std::move(compiled->image);
  }
  return {};
}

nlohmann::json describe(const std::vector<TensorDesc> &tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const TensorDesc &tensor : tensors)
    list.push_back({{"name", tensor.name}, {"type", toString(tensor.type)}, {"shape", tensor.shape}});
  return list;
}

} // namespace

Packed packedOf(std::span<const LengthProgram> programs, const runtime::BucketTable &table) {
  const CompiledModel &largest = programs.back().compiled; // It says for all what stands in a pack.
  runtime::PackVariant variant;
  variant.target = largest.main.target;
  variant.cuda = cudaOf(largest.compiler);
  if (largest.main.target == "cpu")
    variant.features = runtime::cpuFeatures();
  variant.compiler = largest.compiler;
  if (const std::optional<double> us = timeOf(largest.report)) {
    variant.sku = largest.report.device;
    variant.nanoseconds = static_cast<std::uint64_t>(std::llround(*us * 1e3));
  }
  variant.plan = toJson(largest.report);
  variant.rungs = table.all();
  std::vector<runtime::VariantPrograms> packed;
  for (const auto &[compiled, edges] : programs) {
    packed.push_back({compiled.main, compiled.prepare, edges, compiled.preparedKeys});
    for (const runtime::Program *program : {&compiled.main, compiled.prepare ? &*compiled.prepare : nullptr})
      if (program) {
        variant.sharedBytes = std::max(variant.sharedBytes, sharedBytesOf(*program));
        variant.multiprocessors = std::max(variant.multiprocessors, runtime::neededMultiprocessors(*program));
      }
  }
  return {std::move(variant), std::move(packed)};
}

Result<Packed> asPtx(Packed packed, const std::string &target, runtime::KernelCompiler &compiler) {
  auto &[variant, programs] = packed;
  variant.target = target;
  variant.sku.clear();
  variant.nanoseconds = 0;
  for (runtime::VariantPrograms &bucket : programs)
    for (runtime::Program *program : {&bucket.main, bucket.prepare ? &*bucket.prepare : nullptr})
      if (Result<void> compiled = program ? compileAs(*program, target, compiler) : Result<void>(); !compiled)
        return compiled.error();
  return packed;
}

runtime::Manifest manifestOf(const Edges &edges, const std::vector<Dim> &dims, std::vector<int> updatedStates,
                             std::string name) {
  runtime::Manifest manifest;
  manifest.model = std::move(name);
  manifest.tool = "kfuse " KFUSE_VERSION;
  manifest.inputs = edges.inputs;
  manifest.parameters = edges.parameters;
  manifest.states = edges.states;
  manifest.outputs = edges.outputs;
  manifest.updatedStates = std::move(updatedStates);
  manifest.dims = dims;
  if (dims.empty())
    return manifest;
  std::ranges::transform(edges.inputs, std::back_inserter(manifest.inputDims), &TensorDesc::dims);
  std::ranges::transform(edges.outputs, std::back_inserter(manifest.outputDims), &TensorDesc::dims);
  return manifest;
}

/// The sections of its machine code, each once.
std::set<std::uint32_t> codeOf(const runtime::PackVariant &variant) {
  std::set<std::uint32_t> sections(variant.main.code.begin(), variant.main.code.end());
  for (const runtime::PackedBucket &bucket : variant.buckets)
    sections.insert(bucket.main.code.begin(), bucket.main.code.end());
  return sections;
}

std::string describe(const runtime::Pack &pack) {
  const runtime::Manifest &manifest = pack.manifest();
  nlohmann::json variants = nlohmann::json::array(), dims = nlohmann::json::array();
  for (const Dim &dim : manifest.dims)
    dims.push_back({{"name", dim.name}, {"low", dim.low}, {"high", dim.high}});
  for (const runtime::PackVariant &variant : manifest.variants) {
    std::size_t codeBytes = 0;
    for (std::uint32_t section : codeOf(variant))
      codeBytes += section < pack.file().size() ? pack.file().bytes(section) : 0;
    nlohmann::json us = variant.nanoseconds ? nlohmann::json(double(variant.nanoseconds) / 1e3) : nlohmann::json();
    variants.push_back({{"target", variant.target},
                        {"sku", variant.sku},
                        {"multiprocessors", variant.multiprocessors},
                        {"features", variant.features},
                        {"compiler", variant.compiler},
                        {"kernels", variant.main.code.size()},
                        {"buckets", variant.rungs},
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
                        {"dims", dims},
                        {"weights_file", manifest.weightsFile},
                        {"holds_weights", !manifest.weights.empty() && pack.holdsWeights()},
                        {"variants", variants}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

Edges edgesOfPack(const runtime::Manifest &manifest) {
  Edges edges{manifest.inputs, manifest.parameters, manifest.states, manifest.outputs};
  for (std::size_t i = 0; i < manifest.inputDims.size(); ++i)
    edges.inputs[i].dims = manifest.inputDims[i];
  for (std::size_t i = 0; i < manifest.outputDims.size(); ++i)
    edges.outputs[i].dims = manifest.outputDims[i];
  return edges;
}

Result<Model> modelOfPack(const std::string &path, const runtime::WeightsSource &source) {
  Result<runtime::Pack> opened = runtime::Pack::open(path);
  if (!opened)
    return opened.error();
  const auto pack = std::make_shared<const runtime::Pack>(std::move(*opened));
  Result<runtime::PackWeights> found = runtime::PackWeights::open(pack, source);
  if (!found)
    return found.error();
  const auto weights = std::make_shared<const runtime::PackWeights>(std::move(*found));
  auto impl = std::make_shared<Model::Impl>();
  impl->edges = edgesOfPack(pack->manifest());
  impl->dims = pack->manifest().dims;
  for (std::size_t i = 0; i < impl->edges.parameters.size(); ++i) {
    Result<std::span<const std::byte>> bytes = weights->find(i);
    if (!bytes)
      return bytes.error();
    const TensorDesc &parameter = impl->edges.parameters[i];
    if (!bytes->empty())
      impl->model.parameters[parameter.name] = {parameter.type, parameter.shape, *bytes, weights};
  }
  return Model(std::move(impl));
}

Result<Model> modelOfRun(const Model &pack, const Executable &program, std::span<const std::int64_t> lengths) {
  if (pack.dims().empty())
    return pack;
  const Executable::Impl &loaded = program.internals();
  Result<std::size_t> bucket = loaded.programFor(lengths);
  if (!bucket)
    return bucket.error();
  const runtime::LengthEdges &follows = loaded.programs[*bucket].edges;
  auto impl = std::make_shared<Model::Impl>();
  impl->edges = pack.internals().edges;
  impl->model.parameters = pack.internals().model.parameters;
  for (auto [tensors, axes] :
       {std::pair(&impl->edges.inputs, &follows.inputs), {&impl->edges.outputs, &follows.results}})
    for (std::size_t i = 0; i < tensors->size(); ++i) {
      (*tensors)[i].shape = runtime::shapeAt((*axes)[i], lengths);
      (*tensors)[i].dims.clear();
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
  Result<runtime::BucketTable> table = pack->table(chosen->variant);
  if (!table)
    return table.error();
  Result<std::vector<runtime::VariantPrograms>> programs = pack->loadAll(chosen->variant);
  if (!programs)
    return programs.error();
  Result<std::unique_ptr<runtime::Device>> device =
      chosen->isCpu ? Result(runtime::openCpu(options.threads)) : runtime::openCuda(options.device);
  if (!device)
    return device.error();
  auto impl = std::make_shared<Executable::Impl>();
  impl->device = std::move(*device);
  impl->ordinal = chosen->isCpu ? -1 : options.device;
  impl->edges = tuner::edgesOfPack(manifest);
  impl->updatedStates = manifest.updatedStates;
  impl->pack = std::make_shared<const runtime::Pack>(std::move(*pack));
  impl->weights = {options.weights, options.checkWeights};
  impl->packedPlan = manifest.variants[chosen->variant].plan;
  impl->table = std::move(*table);
  impl->dims = manifest.dims;
  for (runtime::VariantPrograms &bucket : *programs) {
    auto &[compiled, edges] = impl->programs.emplace_back();
    compiled.main = std::move(bucket.main);
    compiled.prepare = std::move(bucket.prepare);
    compiled.preparedKeys = std::move(bucket.preparedKeys);
    compiled.report.device = impl->device->sku();
    edges = std::move(bucket.edges);
  }
  return impl;
}

} // namespace

Result<void> Executable::Impl::save(const Impl &impl, const std::string &path) {
  if (!impl.packedPlan.empty())
    return usage("this program came from a pack; copy that file");
  runtime::PackContents contents;
  contents.manifest = tuner::manifestOf(impl.edges, impl.dims, impl.updatedStates, impl.compiled().main.name);
  contents.variants.push_back(tuner::packedOf(impl.programs, impl.table));
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
