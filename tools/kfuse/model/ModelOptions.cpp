#include "tools/kfuse/model/ModelOptions.h"

#include "tools/kfuse/console/Terminal.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <unistd.h>

namespace kfuse::tools {
namespace {

std::optional<Shape> parseShape(std::string_view text) {
  Shape shape;
  while (true) {
    std::int64_t size = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size <= 0)
      return std::nullopt;
    shape.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty())
      return shape;
    if (text.front() != 'x' && text.front() != ',')
      return std::nullopt;
    text.remove_prefix(1);
  }
}

/// "tokens=1..8192".
std::optional<Dim> parseDim(std::string_view text) {
  const std::size_t equals = text.rfind('='), dots = text.rfind("..");
  if (equals == text.npos || dots == text.npos || dots < equals || equals == 0)
    return std::nullopt;
  Dim dim{std::string(text.substr(0, equals)), 0, 0};
  for (auto [part, size] :
       {std::pair(text.substr(equals + 1, dots - equals - 1), &dim.low), {text.substr(dots + 2), &dim.high}}) {
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), *size);
    if (error != std::errc() || end != part.data() + part.size() || *size <= 0)
      return std::nullopt;
  }
  return dim;
}

/// "1xtokensx4096": sizes and names of `dims`, which may have an x inside.
std::optional<std::vector<std::string>> parseAxes(std::string_view text, const std::vector<Dim> &dims) {
  std::vector<std::string> axes;
  while (!text.empty()) {
    std::size_t length = text.find_first_not_of("0123456789");
    length = length == text.npos ? text.size() : length;
    for (const Dim &dim : dims)
      if (text.substr(0, dim.name.size()) == dim.name)
        length = std::max(length, dim.name.size());
    if (length == 0)
      return std::nullopt;
    axes.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
    if (text.empty())
      return axes;
    if (text.front() != 'x' && text.front() != ',')
      return std::nullopt;
    text.remove_prefix(1);
  }
  return std::nullopt;
}

} // namespace

void ModelOptions::addTo(CLI::App &command) {
  command.add_option("MODEL", model, "An ONNX file, or the dialect's text")->required();
  command.add_option("--target", target, "cpu, sm_80, sm_90a, ...; auto: the first GPU, else the CPU")
      ->capture_default_str();
  command.add_option("--shape", shapes, "Shape of an input that is dynamic in the file: name=1x128x4096");
  command.add_option("--dims", dims, "Any size in a range, for a dimension by its name: tokens=1..8192");
  command.add_option("--histogram", histogram, "File of lines 'LENGTH... COUNT': which sizes of --dims come how often");
  command.add_option("--params", parameters, "Glob naming inputs that are fixed between runs: '*weight*'");
  command.add_option("--state", states, "Inputs kept in an output's memory: 'past*=present*', 'past*=present*:4096'");
  command.add_option("--checkpoint", checkpoint, "Folder of config.json and safetensors: weights, also of few bits");
  command.add_option("--checkpoint-prefix", checkpointPrefix, "What the checkpoint has in front of the model's names");
  command.add_flag("--tf32", tf32, "Let products of f32 cut their operands behind 10 bits, for tensor cores");
  command.add_flag("--no-simplify", noSimplify, "Fuse the graph as it is written");
  command.add_flag("--json", json, "One JSON object on stdout and nothing else there");
}

void ModelOptions::addTuningTo(CLI::App &command) {
  command.add_option("--weights", weights, "A safetensors file: parameters by their names");
  command.add_option("--store", store, "Tuning store; else $KFUSE_STORE, else the user's cache folder");
  command.add_option("--effort", effort, "quick: up to 8 candidates a kernel; full: up to 40")
      ->check(CLI::IsMember({"quick", "full"}))
      ->capture_default_str();
  command.add_option("--budget", budgetSeconds, "Time for the whole model: 60s, 5m; else the effort's own")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}},
                                        CLI::AsNumberWithUnit::CASE_INSENSITIVE, "TIME"))
      ->check(aboveZero());
  command.add_flag("--no-benchmark", noBenchmark, "Measure nothing: the cost model chooses, the same everywhere");
  command.add_flag("--require-tuned", requireTuned, "Never compile: exit status 6 and a list of what the store lacks");
  command.add_flag("--trust-store", trustStore, "Use the store's machine code though others than you may write it");
  command.add_option("--threads", threads, "Threads of a CPU, or that compile for a GPU; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

CLI::Validator aboveZero() {
  auto check = [](std::string &text) {
    double value = 0;
    const bool isAbove = CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value);
    return isAbove ? std::string() : text + " is not a number above 0";
  };
  return {check, "POSITIVE"};
}

std::vector<std::string> wordsOf(const CLI::App &command, const std::set<std::string> &leftOut) {
  std::vector<std::string> words{command.get_name()};
  for (const CLI::Option *option : command.get_options()) {
    const bool isPositional = option->get_lnames().empty();
    const std::string name = isPositional ? "" : option->get_lnames().front();
    if (option->count() == 0 || leftOut.contains(name))
      continue;
    const bool isFlag = option->get_items_expected_max() == 0;
    for (const std::string &value : option->results()) {
      if (!isPositional)
        words.push_back("--" + name);
      if (!isFlag)
        words.push_back(value);
    }
  }
  return words;
}

bool ModelOptions::isPack() const {
  constexpr std::string_view mark = "KFUSEPAK";
  char head[mark.size()] = {};
  std::ifstream(model, std::ios::binary).read(head, sizeof head);
  return std::string_view(head, sizeof head) == mark;
}

Result<Model> ModelOptions::load() const {
  if (isPack())
    return Error{ErrorCode::Usage, model + " is a pack, of which kfuse run, bench block and pack --inspect know more; "
                                           "this command is for models"};
  LoadOptions options;
  options.parameters = parameters;
  options.states = states;
  options.tf32 = tf32;
  options.checkpoint = checkpoint;
  options.checkpointPrefix = checkpointPrefix;
  for (const std::string &range : dims) {
    std::optional<Dim> dim = parseDim(range);
    if (!dim)
      return Error{ErrorCode::Usage, "--dims " + range + " is not of the form name=1..8192 with positive sizes"};
    options.dims.push_back(std::move(*dim));
  }
  for (const std::string &binding : shapes) {
    std::size_t equals = binding.rfind('=');
    const std::string text = equals == std::string::npos ? "" : binding.substr(equals + 1);
    std::optional<Shape> shape = parseShape(text);
    std::optional<std::vector<std::string>> axes = shape ? std::nullopt : parseAxes(text, options.dims);
    if ((!shape && !axes) || equals == 0)
      return Error{ErrorCode::Usage, "--shape " + binding +
                                         " is not of the form name=1x128x4096 with positive sizes, or names of --dims"};
    const std::string name = binding.substr(0, equals);
    if (options.shapes.contains(name) || options.axes.contains(name))
      return Error{ErrorCode::Usage, "--shape " + binding + " is the second shape of that input; give one"};
    if (shape)
      options.shapes[name] = *shape;
    else
      options.axes[name] = *axes;
  }
  return Model::load(model, options);
}

Result<std::optional<runtime::Safetensors>> ModelOptions::openWeights(const Model &loaded) const {
  if (weights.empty())
    return std::optional<runtime::Safetensors>();
  Result<runtime::Safetensors> opened = runtime::Safetensors::open(weights);
  if (!opened)
    return opened.error();
  for (const TensorDesc &parameter : loaded.parameters())
    if (opened->holds(parameter.name) || loaded.parameterData(parameter.name).empty())
      if (Result<std::span<const std::byte>> found = opened->find(parameter); !found)
        return found.error();
  return std::optional(std::move(*opened));
}

Result<std::vector<LengthCount>> ModelOptions::lengthCounts(const Model &loaded) const {
  std::vector<LengthCount> counts;
  if (histogram.empty())
    return counts;
  auto bad = [&](const std::string &reason) { return Error{ErrorCode::Usage, "--histogram " + histogram + reason}; };
  if (loaded.dims().empty())
    return bad(": the model has no --dims");
  std::ifstream file(histogram);
  if (!file)
    return Error{ErrorCode::Io, "cannot read the histogram " + histogram};
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line);
    if (line.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    LengthCount one{std::vector<std::int64_t>(loaded.dims().size()), 0};
    for (std::int64_t &length : one.lengths)
      words >> length;
    words >> one.count;
    if (std::string more; !words || words >> more)
      return bad(fmt::format(": line {} is not {} lengths and a count", number, one.lengths.size()));
    counts.push_back(std::move(one));
  }
  return counts;
}

CompileOptions ModelOptions::compilation() const {
  CompileOptions options;
  options.target = target;
  options.store = store;
  options.threads = threads;
  options.effort = tuningEffort();
  options.seconds = budgetSeconds;
  options.simplify = !noSimplify;
  options.requireTuned = requireTuned;
  options.trustStore = trustStore;
  options.stop = stop;
  if (showsProgress())
    options.progress = [](const Progress &at) {
      showProgress(at);
      return true;
    };
  options.log = [](std::string_view line) { warn(std::string(line)); };
  return options;
}

Effort ModelOptions::tuningEffort() const {
  if (noBenchmark)
    return Effort::None;
  return effort == "full" ? Effort::Full : Effort::Quick;
}

bool ModelOptions::showsProgress() const { return !json && isTerminal(STDERR_FILENO); }

} // namespace kfuse::tools
