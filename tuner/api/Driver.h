// The way from a loaded model to a tuned one, for kfuse::compile() and for `kfuse tune`.
#pragma once

#include "kfuse/compiler.h"
#include "tuner/model/ModelCompiler.h"
#include "tuner/model/Workbench.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace kfuse::tuner {

/// What a tool decides about tuning beyond CompileOptions.
struct DriverOptions {
  /// Where the program is to run in this process: its device is opened, and NoDevice where there is none.
  bool runsHere = true;
  /// Off: each kernel is chosen by its own time alone (TuneOptions::endToEnd).
  bool endToEnd = true;
  /// WorkbenchOptions::measureOn.
  std::function<int()> measureOn;
  /// TuneOptions::onMiss; asked only where a GPU is here to measure on.
  std::function<unsigned(std::size_t kernels)> onMiss;
};

struct TunedModel {
  Workbench bench;
  std::unique_ptr<runtime::Device> device; ///< To run on; null unless DriverOptions::runsHere.
  CompiledModel compiled;
};
/// The same for several.
struct TunedModels {
  Workbench bench;
  std::unique_ptr<runtime::Device> device;
  std::vector<CompiledModel> compiled;
};

/// How the workbench is opened that the options describe; `stop` ends its waits, `warn` hears its lines.
WorkbenchOptions workbenchOptions(const CompileOptions &options, std::stop_token stop, Store::Warn warn);
/// How far and how long to tune, by the options; progress is not passed on.
TuneOptions tuneOptions(const CompileOptions &options);

/// Plans the model for the target, takes its kernels from the store, and tunes those that are missing. Errors are those
/// of kfuse::compile().
Result<TunedModel> tuneModel(const Model &model, const CompileOptions &options, const DriverOptions &driver);
/// The same for several at once, which share the time, one or more. They prepare weights alike, as the first of them
/// that has these finds best, and their kernels are first guesses for those that come after them.
Result<TunedModels> tuneModels(std::span<const Model> models, const CompileOptions &options,
                               const DriverOptions &driver);

} // namespace kfuse::tuner
