#include "tools/kfuse/Commands.h"
#include "tools/kfuse/TuneHelpers.h"
#include "tools/kfuse/console/Interruption.h"
#include "tools/kfuse/console/Json.h"
#include "tools/kfuse/console/OutputFile.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/ModelOptions.h"
#include "tuner/api/Driver.h"
#include "tuner/api/Handles.h"
#include "tuner/api/Lengths.h"
#include "tuner/record/Trace.h"
#include "tuner/report/ReportPage.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace kfuse::tools {
namespace {

/// Whether the next run will find every kernel in the store. If not, a warning has said why.
bool isKept(const tuner::Store &store, const tuner::TuneReport &report) {
  return !store.problem() || std::all_of(report.kernels.begin(), report.kernels.end(),
                                         [](const tuner::KernelReport &kernel) { return kernel.fromCache; });
}

struct TuneCommand : ModelOptions {
  std::string report;                   ///< An HTML file; "": none.
  std::string trace;                    ///< A JSON file; "": none.
  bool kernelsAlone = false;            ///< Nothing is chosen by the time of a whole run.
  std::vector<int> devices;             ///< CUDA ordinals; none: all idle ones.
  std::vector<std::string> helperWords; ///< The same command for a process on another GPU, but for --devices.
};

/// Takes the number of a GPU.
CLI::Validator ordinal() {
  auto check = [](std::string &text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool isWhole = error == std::errc() && end == text.data() + text.size();
    return isWhole && value >= 0 ? std::string() : text + " is no number of a GPU: 0, 1, ...";
  };
  return {check, "ORDINAL"};
}

Result<void> checkOutputs(const TuneCommand &options) {
  std::vector<FileInUse> inUse =
      filesOfStore(options.store.empty() ? tuner::Store::defaultPath() : std::filesystem::path(options.store));
  inUse.push_back({"the model", options.model});
  for (auto [what, path] : {std::pair("report", &options.report), {"trace", &options.trace}}) {
    if (path->empty())
      continue;
    if (Result<void> writable = checkOutput(what, *path, inUse); !writable)
      return writable;
    inUse.push_back({fmt::format("the {}", what), *path});
  }
  return {};
}

Result<void> writeReport(const std::string &path, const tuner::TuneReport &report, const std::string &model,
                         tuner::Store &store) {
  std::vector<std::vector<tuner::Measurement>> trials;
  for (const tuner::KernelReport &kernel : report.kernels)
    trials.push_back(store.findMeasurements(kernel.region));
  return writeOutput("report", path, tuner::toHtml(report, model, trials));
}

/// Tunes programs on the GPUs that `devicesHere` finds once something is to be measured.
Result<tuner::TunedModels> tuneAll(const TuneCommand &options, std::span<const Model> models,
                                   const std::vector<int> &named) {
  TuneHelpers helpers(options.helperWords, options.stop);
  CompileOptions compilation = options.compilation();
  std::vector<int> devices; // A warm start has no use for them.
  auto devicesHere = [&] { return devices.empty() ? devices = devicesToTuneOn(named) : devices; };
  compilation.device = named.empty() ? 0 : named.front();
  const auto start = std::chrono::steady_clock::now();
  Result<tuner::TunedModels> tuned =
      tuner::tuneModels(models, compilation,
                        {.runsHere = false,
                         .endToEnd = !options.kernelsAlone,
                         .measureOn = [&] { return devicesHere().front(); },
                         .onMiss =
                             [&](std::size_t kernels) {
                               const std::vector<int> all = devicesHere();
                               return 1 + helpers.start({all.begin() + 1, all.end()}, kernels - 1);
                             }});
  clearProgress();
  for (std::size_t i = 0; tuned && i < tuned->compiled.size(); ++i)
    tuned->compiled[i].report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return tuned;
}

/// The programs of a model that has lengths.
int tuneBuckets(const TuneCommand &options, const Model &model, const std::vector<int> &named) {
  if (!options.report.empty())
    return fail({ErrorCode::Usage, "--report shows one program; give its sizes with --shape in place of --dims"});
  const auto start = std::chrono::steady_clock::now();
  Result<std::vector<LengthCount>> histogram = options.lengthCounts(model);
  if (!histogram)
    return fail(histogram.error());
  Result<const ir::Target *> target = tuner::resolveTarget(options.target);
  if (!target)
    return fail(target.error());
  Result<tuner::LengthBuckets> made = tuner::bucketsOf(model, **target, !options.noSimplify, *histogram);
  if (!made)
    return fail(made.error());
  std::vector<Model> programs;
  for (std::size_t i : made->order)
    programs.push_back(made->buckets[i].model);
  Result<tuner::TunedModels> tuned = tuneAll(options, programs, named);
  if (!tuned)
    return fail(tuned.error());
  Json json = Json::array();
  bool areKept = true;
  for (std::size_t i = 0; i < made->buckets.size(); ++i) {
    const auto place = std::ranges::find(made->order, i) - made->order.begin();
    const tuner::TuneReport &report = tuned->compiled[static_cast<std::size_t>(place)].report;
    const std::string lengths = runtime::rangesOf(made->buckets[i].lengths);
    if (options.json)
      json.push_back({{"lengths", lengths}, {"program", Json::parse(tuner::toJson(report))}});
    else
      fmt::print("{}:\n{}\n", lengths, tuner::toTable(report, wantsColour()));
    areKept &= isKept(*tuned->bench.store, report);
  }
  if (options.json)
    fmt::print("{}", textOf(json));
  else
    fmt::print("{} programs took {:.1f} s\n", made->buckets.size(),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return areKept ? 0 : static_cast<int>(ErrorCode::Io);
}

int tuneOne(const TuneCommand &options, const Model &model, const std::vector<int> &named) {
  Result<tuner::TunedModels> tuned = tuneAll(options, std::span(&model, 1), named);
  if (!tuned)
    return fail(tuned.error());
  tuner::Store &store = *tuned->bench.store;
  const tuner::TuneReport &report = tuned->compiled.front().report;
  if (!options.report.empty())
    if (Result<void> written =
            writeReport(options.report, report, std::filesystem::path(options.model).filename().string(), store);
        !written)
      return fail(written.error());
  fmt::print("{}", options.json ? tuner::toJson(report) + "\n" : tuner::toTable(report, wantsColour()));
  return isKept(store, report) ? 0 : static_cast<int>(ErrorCode::Io);
}

int tune(const TuneCommand &options) {
  if (Result<void> writable = checkOutputs(options); !writable)
    return fail(writable.error());
  std::optional<tuner::Trace> trace;
  if (!options.trace.empty())
    trace.emplace();
  Result<Model> model = options.load();
  if (!model)
    return fail(model.error());
  if (Result<std::optional<runtime::Safetensors>> weights = options.openWeights(*model); !weights)
    return fail(weights.error());
  const bool isForCpu = options.target == "cpu";
  if (isForCpu && !options.devices.empty())
    warn("--devices names GPUs, which tuning for the CPU does not use");
  Result<std::vector<int>> named = checkDevices(isForCpu ? std::vector<int>() : options.devices);
  if (!named)
    return fail(named.error());
  const int status = model->dims().empty() ? tuneOne(options, *model, *named) : tuneBuckets(options, *model, *named);
  if (trace)
    if (Result<void> written = trace->write(options.trace); !written)
      return fail(written.error());
  return status;
}

} // namespace

void addTune(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand("tune", "Choose the best kernels for a model and store them");
  auto options = std::make_shared<TuneCommand>();
  options->addTo(*command);
  options->addTuningTo(*command);
  command->add_option("--devices", options->devices, "GPUs to tune on: 0,2; else every idle one of GPU 0's kind")
      ->delimiter(',')
      ->check(ordinal());
  command->add_flag("--kernels-alone", options->kernelsAlone,
                    "Choose each kernel by its own time, not between near ones by a whole run's");
  command->add_option("--report", options->report, "An HTML file to write: roofline, time line, searches, table");
  command->add_option("--trace", options->trace, "A JSON file to write, for Chrome or Perfetto: what was done when");
  command->footer("Examples:\n  kfuse tune block.onnx --report out.html\n  kfuse tune block.onnx --params '*weight*' "
                  "--effort full\n"
                  "  kfuse tune block.onnx --shape ids=1x128 --target cpu --json");
  command->callback([command, options, &status] {
    std::set<std::string> ownWords{"devices", "kernels-alone", "report", "trace", "json"};
    if (options->threads == 0)
      ownWords.insert("threads"); // All cores: each helper gets its part of them.
    options->helperWords = wordsOf(*command, ownWords);
    // The whole run is for who has the kernels of all.
    options->helperWords.insert(options->helperWords.end(), {"--kernels-alone", "--json"});
    status = interruptible([&](const std::stop_token &stop) {
      options->stop = stop;
      return tune(*options);
    });
  });
}

} // namespace kfuse::tools
