#include "runtime/cpu/DataObject.h"
#include "runtime/pack/PackWriter.h"
#include "tools/kfuse/Commands.h"
#include "tools/kfuse/PackSource.h"
#include "tools/kfuse/console/Interruption.h"
#include "tools/kfuse/console/OutputFile.h"
#include "tools/kfuse/console/Table.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/ModelOptions.h"
#include "tuner/api/Lengths.h"
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
  std::string packedWeights = "none"; ///< none, embed, embed:FILE, ref:FILE; the file is in `weights`, too.
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
  const std::string weights = !manifest.weightsFile.empty()                      ? "in " + manifest.weightsFile
                              : !manifest.weights.empty() && pack.holdsWeights() ? "inside"
                                                                                 : "the caller's";
  const std::string lengths = manifest.dims.empty() ? "" : "; runs give " + runtime::rangesOf(manifest.dims);
  fmt::print("{}\n{}written by {}; weights are {}{}\n", edges.str(), variants.str(), manifest.tool, weights, lengths);
}

int show(const PackCommand &options, const runtime::Pack &pack) {
  if (options.json)
    fmt::print("{}", tuner::describe(pack));
  else
    print(pack);
  return 0;
}

/// Every byte of it, and of the file of weights that it names.
Result<void> verify(const std::shared_ptr<const runtime::Pack> &pack) {
  if (Result<void> whole = pack->verify(); !whole)
    return whole;
  Result<runtime::PackWeights> weights = runtime::PackWeights::open(pack, {.file = "", .isChecked = true});
  if (!weights)
    return weights.error();
  for (std::size_t i = 0; i < pack->manifest().parameters.size(); ++i)
    if (Result<std::span<const std::byte>> found = weights->find(i); !found)
      return found.error();
  return {};
}

int look(const PackCommand &options) {
  Result<runtime::Pack> opened = runtime::Pack::open(options.model);
  if (!opened)
    return fail(opened.error());
  const auto pack = std::make_shared<const runtime::Pack>(std::move(*opened));
  if (options.verify)
    if (Result<void> whole = verify(pack); !whole)
      return fail(whole.error());
  if (options.inspect || options.json)
    return show(options, *pack);
  fmt::print("{} is whole: {} sections, {} programs\n", options.model, pack->file().size(),
             pack->manifest().variants.size());
  return 0;
}

//===- Making one ------------------------------------------------------------------------------===//

Result<tuner::TunedPrograms> tuneFor(const PackCommand &options, const Model &model, const std::string &target) {
  CompileOptions compilation = options.compilation();
  compilation.target = target;
  Result<std::vector<LengthCount>> histogram = options.lengthCounts(model);
  if (!histogram)
    return histogram.error();
  compilation.histogram = std::move(*histogram);
  tuner::DriverOptions driver;
  driver.runsHere = false;
  Result<tuner::TunedPrograms> tuned = tuner::tunePrograms(std::span(&model, 1), compilation, driver);
  clearProgress();
  return tuned;
}

tuner::Packed packedOf(const tuner::TunedPrograms &tuned) {
  return tuner::packedOf(tuned.models.front().programs, tuned.models.front().table);
}

/// The variants of all targets, and for GPUs that are none of them PTX.
Result<std::vector<tuner::Packed>> variantsOf(const PackCommand &options, const Model &model,
                                              std::vector<int> &updated) {
  std::vector<tuner::Packed> variants;
  bool hasGpu = false;
  for (const std::string &target : options.targets.empty() ? std::vector<std::string>{"auto"} : options.targets) {
    Result<tuner::TunedPrograms> tuned = tuneFor(options, model, target);
    if (!tuned)
      return tuned.error();
    hasGpu |= !tuned->bench.target->isCpu();
    updated = updatedStates(tuned->models.front().programs.front().compiled.main, model.states().size());
    variants.push_back(packedOf(*tuned));
  }
  if (!hasGpu || options.noFallback)
    return variants;
  PackCommand untuned = options;
  untuned.requireTuned = false; // On no device: the cost model chooses, and PTX is compiled here.
  Result<tuner::TunedPrograms> tuned = tuneFor(untuned, model, fallbackLimits);
  if (!tuned)
    return tuned.error();
  Result<tuner::Packed> ptx = tuner::asPtx(packedOf(*tuned), fallbackTarget, *tuned->bench.compiler);
  if (!ptx)
    return ptx.error();
  variants.push_back(std::move(*ptx));
  return variants;
}

/// The file of --weights ref:FILE as the pack's folder sees it.
std::string fromPack(const PackCommand &options) {
  const auto folder = std::filesystem::absolute(options.output).parent_path();
  return std::filesystem::absolute(options.weights).lexically_proximate(folder).string();
}

/// Puts weights into a pack as --weights says: those of the safetensors file, else of the model's own. A file that the
/// pack only refers to stays where it is; what it lacks goes in.
Result<void> addWeights(const PackCommand &options, const Model &model, const std::optional<runtime::Safetensors> &file,
                        runtime::PackContents &contents) {
  if (options.packedWeights == "none")
    return {};
  const bool isReference = options.packedWeights.starts_with("ref:");
  if (isReference)
    contents.manifest.weightsFile = fromPack(options);
  for (const TensorDesc &parameter : model.parameters()) {
    std::span<const std::byte> bytes = model.parameterData(parameter.name);
    const bool isInFile = file && file->holds(parameter.name);
    if (isInFile)
      bytes = file->find(parameter).value(); // openWeights() has looked at it.
    if (bytes.empty() && parameter.bytes() > 0)
      return Error{ErrorCode::Usage, "--weights embed finds no bytes of the parameter '" + parameter.name +
                                         "'; give a file of it with --weights embed:FILE"};
    if (isReference)
      contents.manifest.weightSeals.push_back(isInFile ? runtime::toHex(runtime::sha256(bytes)) : "");
    contents.weights.push_back(isReference && isInFile ? std::span<const std::byte>() : bytes);
  }
  return {};
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
  Result<std::optional<runtime::Safetensors>> file = options.openWeights(*model);
  if (!file)
    return file.error();
  runtime::PackContents contents;
  std::vector<int> updated;
  Result<std::vector<tuner::Packed>> variants = variantsOf(options, *model, updated);
  if (!variants)
    return variants.error();
  contents.manifest = tuner::manifestOf(model->internals().edges, model->dims(), std::move(updated),
                                        std::filesystem::path(options.model).filename().string());
  contents.variants = std::move(*variants);
  if (Result<void> added = addWeights(options, *model, *file, contents); !added)
    return added.error();
  return runtime::writePack(std::move(contents));
}

int make(const PackCommand &options) {
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

/// none, embed, or a file behind "embed:" or "ref:".
CLI::Validator weightsForm() {
  auto check = [](std::string &text) {
    const bool namesFile =
        (text.starts_with("embed:") && text.size() > 6) || (text.starts_with("ref:") && text.size() > 4);
    return namesFile || text == "none" || text == "embed" ? std::string()
                                                          : text + " is none of none, embed, embed:FILE, ref:FILE";
  };
  return {check, "FORM"};
}

/// The file that a form of --weights names, or none.
std::string fileOf(const std::string &form) {
  const std::size_t colon = form.find(':');
  return colon == form.npos ? "" : form.substr(colon + 1);
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
  command->remove_option(command->get_option("--weights"));
  command
      ->add_option(
          "--weights", options->packedWeights,
          "Whose bytes come along: none; embed: the model's;\nembed:FILE.safetensors; ref:FILE.safetensors, which "
          "stays beside the pack")
      ->check(weightsForm())
      ->capture_default_str();
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
    options->weights = fileOf(options->packedWeights);
    status = interruptible([&](const std::stop_token &stop) {
      options->stop = stop;
      return make(*options);
    });
  });
}

} // namespace kfuse::tools
