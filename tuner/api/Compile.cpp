#include "kfuse/compiler.h"

#include "tuner/api/Handles.h"
#include "tuner/api/NoThrow.h"
#include "tuner/model/PlannedBench.h"

#include <algorithm>
#include <cmath>
#include <stop_token>

using namespace mlir;

namespace kfuse {
namespace {

tuner::TuneOptions tuneOptions(const CompileOptions &options, std::stop_source cancelled) {
  tuner::TuneOptions tune;
  tune.effort = options.effort == Effort::Full    ? tuner::Effort::Full
                : options.effort == Effort::Quick ? tuner::Effort::Quick
                                                  : tuner::Effort::None;
  tune.seconds = options.seconds;
  tune.requireTuned = options.requireTuned;
  if (options.progress)
    tune.progress = [progress = options.progress, cancelled](const tuner::Progress &at) mutable {
      bool goOn = progress({.kernel = at.kernel,
                            .kernelsDone = static_cast<int>(at.index),
                            .kernels = static_cast<int>(at.count),
                            .candidatesDone = at.tried,
                            .candidates = at.planned});
      if (!goOn)
        cancelled.request_stop();
    };
  return tune;
}

/// Per result: its state's number among the states, or -1.
std::vector<int> updatedStates(const runtime::Program &main) {
  std::vector<int> updated;
  for (int argument : main.resultState)
    updated.push_back(
        argument < 0 ? -1
                     : static_cast<int>(std::count(main.roles.begin(), main.roles.begin() + argument, Role::State)));
  return updated;
}

/// The number of an input by name.
std::size_t inputIndex(const Edges &edges, const std::string &name) {
  return static_cast<std::size_t>(
      std::ranges::find_if(edges.inputs, [&](const TensorDesc &desc) { return desc.name == name; }) -
      edges.inputs.begin());
}

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

/// Of what openWorkbench() does not look at.
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

Result<Executable> compileChecked(const Model &model, const CompileOptions &options) {
  if (!model)
    return usage(movedFrom("Model"));
  if (Result<void> valid = check(options); !valid)
    return valid.error();
  std::scoped_lock lock(model.internals().mutex);
  tuner::Store::Warn warn = [log = options.log](const std::string &line) {
    if (log)
      log(line);
  };
  std::stop_source cancelled; // By `stop` or by `progress`.
  const std::stop_callback pass(options.stop, [&cancelled] { cancelled.request_stop(); });
  Result<tuner::PlannedBench> opened =
      tuner::openAndPlan(*model.internals().model.module,
                         {.target = options.target,
                          .store = options.store,
                          .threads = options.threads,
                          .device = options.device,
                          .measureOn = {},
                          .requireTuned = options.requireTuned,
                          .trust = options.trustStore ? tuner::StoreTrust::Given : tuner::StoreTrust::Checked,
                          .stop = cancelled.get_token(),
                          .warn = warn},
                         options.simplify);
  if (!opened)
    return opened.error();
  Result<std::unique_ptr<runtime::Device>> device = opened->bench.openHere();
  if (!device)
    return device.error();

  tuner::Workshop workshop = opened->bench.workshop(tuneOptions(options, cancelled));
  Result<tuner::CompiledModel> compiled = tuner::compileModel(opened->planned, workshop);
  if (!compiled)
    return compiled.error();
  auto impl = std::make_shared<Executable::Impl>();
  impl->device = std::move(*device);
  impl->compiled = std::move(*compiled);
  impl->edges = model.internals().edges;
  impl->updatedStates = updatedStates(impl->compiled.main);
  if (const std::optional<ir::PastLength> &past = model.internals().model.pastLength;
      past && impl->compiled.main.target == "cpu")
    impl->hostPastLength = {inputIndex(impl->edges, past->input), past->most};
  return Executable(std::move(impl));
}

} // namespace

Result<Executable> detail::compileGuarded(const Model &model, const CompileOptions &options) {
  return withoutThrowing([&] { return compileChecked(model, options); });
}

} // namespace kfuse
