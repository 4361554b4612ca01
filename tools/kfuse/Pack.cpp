#include "kfuse/pack.h"
#include "tools/kfuse/Commands.h"
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

int look(const PackCommand &options) {
  Result<runtime::Pack> pack = runtime::Pack::open(options.model);
  if (!pack)
    return fail(pack.error());
  if (options.verify)
    if (Result<void> whole = pack->verify(); !whole)
      return fail(whole.error());
  if (options.json) {
    Result<std::string> text = describePack(options.model);
    if (!text)
      return fail(text.error());
    fmt::print("{}", *text);
  } else if (options.inspect) {
    print(*pack);
  } else {
    fmt::print("{} is whole: {} sections, {} programs\n", options.model, pack->file().size(),
               pack->manifest().variants.size());
  }
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

int make(const PackCommand &options) {
  if (options.output.empty())
    return fail({ErrorCode::Usage, "give the pack to write with -o, or --inspect or --verify to look at one"});
  std::vector<FileInUse> inUse =
      filesOfStore(options.store.empty() ? tuner::Store::defaultPath() : std::filesystem::path(options.store));
  inUse.push_back({"the model", options.model});
  if (!options.weights.empty())
    inUse.push_back({"the weights", options.weights});
  if (!options.weights.empty() && !options.embed)
    return fail({ErrorCode::Usage, "--weights of pack is for --embed, which puts them into it"});
  if (Result<void> writable = checkOutput("pack", options.output, inUse); !writable)
    return fail(writable.error());
  Result<Model> model = options.load();
  if (!model)
    return fail(model.error());
  if (!model->dims().empty())
    return fail({ErrorCode::Usage, "a pack holds programs of fixed sizes; give them with --shape in place of --dims"});
  Result<std::optional<runtime::Safetensors>> file = options.openWeights(*model);
  if (!file)
    return fail(file.error());
  runtime::PackContents contents;
  if (options.embed) {
    Result<std::vector<std::span<const std::byte>>> weights = weightsOf(*model, *file);
    if (!weights)
      return fail(weights.error());
    contents.weights = std::move(*weights);
  }
  std::vector<int> updated;
  Result<std::vector<tuner::Packed>> variants = variantsOf(options, *model, updated);
  if (!variants)
    return fail(variants.error());
  contents.manifest = tuner::manifestOf(model->internals().edges, std::move(updated),
                                        std::filesystem::path(options.model).filename().string());
  contents.variants = std::move(*variants);
  const std::vector<std::byte> bytes = runtime::writePack(std::move(contents));
  if (Result<void> written =
          writeOutput("pack", options.output, std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
      !written)
    return fail(written.error());
  PackCommand written = options;
  written.model = options.output;
  written.inspect = true;
  return look(written);
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
  command->add_flag("--no-fallback", options->noFallback, "No PTX for GPUs from sm_80 on that are none of the targets");
  command->add_flag("--embed", options->embed, "The parameters' bytes go into the pack, too");
  command->add_flag("--inspect", options->inspect, "Say what the pack MODEL holds");
  command->add_flag("--verify", options->verify, "Check every byte of the pack MODEL");
  command->footer("Examples:\n  kfuse pack block.onnx -o block.kfp --target sm_90a --target sm_80\n"
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
