#include "tuner/api/Driver.h"

#include "tuner/api/Handles.h"
#include "tuner/model/PlannedBench.h"

#include <cmath>
#include <mutex>
#include <set>
#include <stop_token>
#include <utility>

namespace kfuse::tuner {
namespace {

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

/// Checks what openWorkbench() does not look at.
Result<void> check(const CompileOptions &options) {
  if (options.effort > Effort::Full)
    return usage("effort " + std::to_string(static_cast<int>(options.effort)) +
                 " is none of 0 (none), 1 (quick), 2 (full)");
  if (!std::isfinite(options.seconds) || options.seconds < 0)
    return usage("the seconds for tuning are " + std::to_string(options.seconds) + ", expected a number of 0 or more");
  for (auto [what, text] : {std::pair("target", &options.target), {"store", &options.store}})
    if (text->find('\0') != std::string::npos)
      return usage(std::string("the ") + what + " has a NUL in it, after '" + text->c_str() + "'");
  return {};
}

/// Tells `progress` how far it has come; what it answers may ask to stop.
std::function<void(const Progress &)> progressOf(const CompileOptions &options, std::stop_source cancelled) {
  if (!options.progress)
    return nullptr;
  return [progress = options.progress, cancelled = std::move(cancelled)](const Progress &at) mutable {
    if (!progress(at))
      cancelled.request_stop();
  };
}

/// Each model's lock, in one order for all threads.
std::vector<std::unique_lock<std::recursive_mutex>> lockAll(std::span<const Model> models) {
  std::set<std::recursive_mutex *> mutexes;
  for (const Model &model : models)
    mutexes.insert(&model.internals().mutex);
  std::vector<std::unique_lock<std::recursive_mutex>> locks;
  for (std::recursive_mutex *mutex : mutexes)
    locks.emplace_back(*mutex);
  return locks;
}

} // namespace

WorkbenchOptions workbenchOptions(const CompileOptions &options, std::stop_token stop, Store::Warn warn) {
  return {.target = options.target,
          .store = options.store,
          .threads = options.threads,
          .device = options.device,
          .measureOn = {},
          .requireTuned = options.requireTuned,
          .trust = options.trustStore ? StoreTrust::Given : StoreTrust::Checked,
          .stop = std::move(stop),
          .warn = std::move(warn)};
}

TuneOptions tuneOptions(const CompileOptions &options) {
  TuneOptions tune;
  tune.effort = options.effort;
  tune.seconds = options.seconds;
  tune.requireTuned = options.requireTuned;
  return tune;
}

Result<TunedModels> tuneModels(std::span<const Model> models, const CompileOptions &options,
                               const DriverOptions &driver) {
  if (models.empty())
    return usage("there is no model to compile; give one or more");
  for (const Model &model : models)
    if (!model)
      return usage(movedFrom("Model"));
  if (Result<void> valid = check(options); !valid)
    return valid.error();
  const std::vector<std::unique_lock<std::recursive_mutex>> locks = lockAll(models);
  std::stop_source cancelled; // By `stop` or by `progress`.
  const std::stop_callback pass(options.stop, [&cancelled] { cancelled.request_stop(); });
  WorkbenchOptions workbench =
      workbenchOptions(options, cancelled.get_token(), [log = options.log](const std::string &line) {
        if (log)
          log(line);
      });
  workbench.measureOn = driver.measureOn;
  std::vector<mlir::ModuleOp> modules;
  for (const Model &model : models)
    modules.push_back(*model.internals().model.module);
  Result<PlannedBenches> opened = openAndPlan(modules, workbench, options.simplify);
  if (!opened)
    return opened.error();
  auto &[bench, planned] = *opened;
  std::unique_ptr<runtime::Device> device;
  if (driver.runsHere) {
    Result<std::unique_ptr<runtime::Device>> here = bench.openHere();
    if (!here)
      return here.error();
    device = std::move(*here);
  }
  TuneOptions tune = tuneOptions(options);
  tune.endToEnd = driver.endToEnd;
  tune.progress = progressOf(options, cancelled);
  if (bench.device && !bench.target->isCpu())
    tune.onMiss = driver.onMiss;
  Result<std::vector<CompiledModel>> compiled = compileModels(planned, bench.context(std::move(tune)));
  if (!compiled)
    return compiled.error();
  return TunedModels{std::move(bench), std::move(device), std::move(*compiled)};
}

Result<TunedModel> tuneModel(const Model &model, const CompileOptions &options, const DriverOptions &driver) {
  Result<TunedModels> tuned = tuneModels(std::span(&model, 1), options, driver);
  if (!tuned)
    return tuned.error();
  return TunedModel{std::move(tuned->bench), std::move(tuned->device), std::move(tuned->compiled.front())};
}

} // namespace kfuse::tuner
