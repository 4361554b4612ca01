#include "runtime/cpu/DataObject.h"
#include "tools/kfuse/Commands.h"
#include "tools/kfuse/PackSource.h"
#include "tools/kfuse/console/Interruption.h"
#include "tools/kfuse/console/OutputFile.h"
#include "tools/kfuse/console/Table.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/ModelOptions.h"
#include "tuner/api/Driver.h"
#include "tuner/api/Packs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

namespace kfuse::tools {
namespace {

/// The instructions of the first are in every later GPU, and the shared memory of the second, the least since.
constexpr const char *fallbackTarget = "compute_80", *fallbackLimits = "sm_86";

struct PackCommand : ModelOptions {
  std::string output;
  std::string emit = "pack";
  std::vector<std::string> targets; ///< Empty: auto.
  bool noFallback = false;
  bool embed = false;
  bool inspect = false;
  bool verify = false;
};

//===- Looking into one ------------------------------------------------------------------------===//

std::string tensorsOf(const std::vector<TensorDesc> &tensors) {
  std::string text;
  for (const TensorDesc &tensor : tensors)
    text +=
        fmt::format("{}{} {} {}", text.empty() ? "" : ", ", tensor.name, toString(tensor.type), toString(tensor.shape));
  return text.empty() ? "-" : text;
}

void print(const runtime::Pack &pack) {
  const runtime::Manifest &manifest = pack.manifest();
  Table edges({"of " + manifest.model, "tensors"});
  for (auto [what, tensors] : {std::pair("inputs", &manifest.inputs),
                               {"parameters", &manifest.parameters},
                               {"states", &manifest.states},
                               {"outputs", &manifest.outputs}})
    edges.add({what, tensorsOf(*tensors)});
  Table variants({"target", "tuned on", "made by", ">SMs", ">kernels", ">measured", "needs"});
  for (const runtime::PackVariant &variant : manifest.variants)
    variants.add({variant.target, variant.sku.empty() ? "-" : variant.sku, variant.compiler,
                  variant.multiprocessors > 0 ? std::to_string(variant.multiprocessors) : "-",
                  std::to_string(variant.main.code.size()),
                  variant.nanoseconds > 0 ? formatTime(double(variant.nanoseconds) / 1e3) : "-",
                  variant.features.empty() ? "-" : fmt::format("{}", fmt::join(variant.features, " "))});
  fmt::print("{}\n{}written by {}; weights are {}\n", edges.str(), variants.str(), manifest.tool,
             !manifest.weights.empty() && pack.holdsWeights() ? "inside" : "the caller's");
}

int show(const PackCommand &options, const runtime::Pack &pack) {
  if (options.json)
    fmt::print("{}", tuner::describe(pack));
  else
    print(pack);
  return 0;
}

int look(const PackCommand &options) {
  Result<runtime::Pack> pack = runtime::Pack::open(options.model);
  if (!pack)
    return fail(pack.error());
  if (options.verify)
    if (Result<void> whole = pack->verify(); !whole)
      return fail(whole.error());
  if (options.inspect || options.json)
    return show(options, *pack);
  fmt::print("{} is whole: {} sections, {} programs\n", options.model, pack->file().size(),
             pack->manifest().variants.size());
  return 0;
}

//===- Making one ------------------------------------------------------------------------------===//

Result<tuner::TunedModel> tuneFor(const PackCommand &options, const Model &model, const std::string &target) {
  CompileOptions compilation = options.compilation();
  compilation.target = target;
  Result<tuner::TunedModel> tuned = tuner::tuneModel(model, compilation, {.runsHere = false});
  clearProgress();
  return tuned;
}

/// The variants of all targets, and for GPUs that are none of them PTX.
Result<std::vector<tuner::Packed>> variantsOf(const PackCommand &options, const Model &model,
                                              std::vector<int> &updated) {
  std::vector<tuner::Packed> variants;
  bool hasGpu = false;
  for (const std::string &target : options.targets.empty() ? std::vector<std::string>{"auto"} : options.targets) {
    Result<tuner::TunedModel> tuned = tuneFor(options, model, target);
    if (!tuned)
      return tuned.error();
    hasGpu |= !tuned->bench.target->isCpu();
    updated = updatedStates(tuned->compiled.main, model.states().size());
    variants.push_back(tuner::packedOf(tuned->compiled));
  }
  if (!hasGpu || options.noFallback)
    return variants;
  Result<tuner::TunedModel> tuned = tuneFor(options, model, fallbackLimits);
  if (!tuned)
    return tuned.error();
  Result<tuner::Packed> ptx = tuner::asPtx(tuner::packedOf(tuned->compiled), fallbackTarget, *tuned->bench.compiler);
  if (!ptx)
    return ptx.error();
  variants.push_back(std::move(*ptx));
  return variants;
}

/// Per parameter its bytes: those of --weights, else those of the model's file.
Result<std::vector<std::span<const std::byte>>> weightsOf(const Model &model,
                                                          const std::optional<runtime::Safetensors> &file) {
  std::vector<std::span<const std::byte>> weights;
  for (const TensorDesc &parameter : model.parameters()) {
    std::span<const std::byte> bytes = model.parameterData(parameter.name);
    if (file && file->holds(parameter.name))
      bytes = file->find(parameter).value(); // openWeights() has looked at it.
    if (bytes.empty() && parameter.bytes() > 0)
      return Error{ErrorCode::Usage, "--embed finds no bytes of the parameter '" + parameter.name +
                                         "'; give a file of it with --weights"};
    weights.push_back(bytes);
  }
  return weights;
}

//===- Writing one -----------------------------------------------------------------------------===//

/// A file that the command writes.
struct WrittenFile {
  std::string what; ///< For people.
  std::filesystem::path path;
};

/// The pack; or its C source or object, and then the header.
std::vector<WrittenFile> filesOf(const PackCommand &options) {
  const std::filesystem::path output = options.output;
  if (options.emit == "pack")
    return {{"pack", output}};
  auto withEnding = [&](const char *ending) { return std::filesystem::path(output).replace_extension(ending); };
  const bool isSource = options.emit == "c";
  return {{isSource ? "C source" : "object", withEnding(isSource ? ".c" : ".o")}, {"header", withEnding(".h")}};
}

/// Before the work begins: whether all that is to be written can be.
Result<void> checkFiles(const PackCommand &options) {
  if (options.output.empty())
    return Error{ErrorCode::Usage, "give the pack to write with -o, or --inspect or --verify to look at one"};
  if (const std::string name = std::filesystem::path(options.output).stem().string();
      options.emit != "pack" && !isIdentifier(name))
    return Error{ErrorCode::Usage, "-o " + options.output + ": functions in C are to be called " + name +
                                       "_load and so on; name the file with letters, digits and _"};
  std::vector<FileInUse> inUse =
      filesOfStore(options.store.empty() ? tuner::Store::defaultPath() : std::filesystem::path(options.store));
  inUse.push_back({"the model", options.model});
  if (!options.weights.empty())
    inUse.push_back({"the weights", options.weights});
  for (const WrittenFile &file : filesOf(options))
    if (Result<void> writable = checkOutput(file.what, file.path, inUse); !writable)
      return writable;
  return {};
}

std::string textOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

Result<void> writeFiles(const PackCommand &options, std::span<const std::byte> pack) {
  const std::vector<WrittenFile> files = filesOf(options);
  auto write = [&](std::size_t i, const std::string &content) {
    return writeOutput(files[i].what, files[i].path, content);
  };
  if (options.emit == "pack")
    return write(0, textOf(pack));
  const std::string name = files.front().path.stem().string();
  Result<std::string> header = headerOf(pack, name);
  if (!header)
    return header.error();
  if (Result<void> written = write(1, *header); !written)
    return written;
  if (options.emit == "c")
    return write(0, sourceOf(pack, name));
  Result<std::vector<std::byte>> object = runtime::cpu::dataObject(packSymbol(name), pack);
  return object ? write(0, textOf(*object)) : object.error();
}

Result<std::vector<std::byte>> makePack(const PackCommand &options) {
  Result<Model> model = options.load();
  if (!model)
    return model.error();
  if (!model->dims().empty())
    return Error{ErrorCode::Usage, "a pack holds programs of fixed sizes; give them with --shape in place of --dims"};
  Result<std::optional<runtime::Safetensors>> file = options.openWeights(*model);
  if (!file)
    return file.error();
  runtime::PackContents contents;
  if (options.embed) {
    Result<std::vector<std::span<const std::byte>>> weights = weightsOf(*model, *file);
    if (!weights)
      return weights.error();
    contents.weights = std::move(*weights);
  }
  std::vector<int> updated;
  Result<std::vector<tuner::Packed>> variants = variantsOf(options, *model, updated);
  if (!variants)
    return variants.error();
  contents.manifest = tuner::manifestOf(model->internals().edges, std::move(updated),
                                        std::filesystem::path(options.model).filename().string());
  contents.variants = std::move(*variants);
  return runtime::writePack(std::move(contents));
}

int make(const PackCommand &options) {
  if (!options.weights.empty() && !options.embed)
    return fail({ErrorCode::Usage, "--weights of pack is for --embed, which puts them into it"});
  if (Result<void> writable = checkFiles(options); !writable)
    return fail(writable.error());
  Result<std::vector<std::byte>> pack = makePack(options);
  if (!pack)
    return fail(pack.error());
  if (Result<void> written = writeFiles(options, *pack); !written)
    return fail(written.error());
  Result<runtime::Pack> parsed = runtime::Pack::parse(*pack, options.output);
  return parsed ? show(options, *parsed) : fail(parsed.error());
}

} // namespace

void addPack(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand("pack", "Write a model's kernels to a file that needs no compiler to run");
  auto options = std::make_shared<PackCommand>();
  options->addTo(*command);
  options->addTuningTo(*command);
  command->remove_option(command->get_option("--target"));
  command->add_option("--target", options->targets, "cpu, sm_80, h100-pcie, ...; several: once each; else as tune");
  command->add_option("-o,--output", options->output, "The pack to write");
  command->add_option("--emit", options->emit, "pack; c: NAME.c and NAME.h beside -o NAME.c; object: NAME.o and NAME.h")
      ->check(CLI::IsMember({"pack", "c", "object"}))
      ->capture_default_str();
  command->add_flag("--no-fallback", options->noFallback, "No PTX for GPUs from sm_80 on that are none of the targets");
  command->add_flag("--embed", options->embed, "The parameters' bytes go into the pack, too");
  command->add_flag("--inspect", options->inspect, "Say what the pack MODEL holds");
  command->add_flag("--verify", options->verify, "Check every byte of the pack MODEL");
  command->footer("Examples:\n  kfuse pack block.onnx -o block.kfp --target sm_90a --target sm_80\n"
                  "  kfuse pack block.onnx --emit object -o block.o\n"
                  "  kfuse pack --inspect block.kfp --json\n  kfuse run block.kfp --weights model.safetensors");
  command->callback([options, &status] {
    if (options->inspect || options->verify) {
      status = look(*options);
      return;
    }
    status = interruptible([&](const std::stop_token &stop) {
      options->stop = stop;
      return make(*options);
    });
  });
}

} // namespace kfuse::tools
