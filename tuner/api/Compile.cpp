#include "kfuse/compiler.h"

#include "tuner/api/Handles.h"
#include "tuner/model/PlannedBench.h"

#include <algorithm>

using namespace mlir;

namespace kfuse {
namespace {

tuner::TuneOptions tuneOptions(const CompileOptions &options, const std::shared_ptr<bool> &cancelled) {
  tuner::TuneOptions tune;
  tune.effort = options.effort == Effort::Full    ? tuner::Effort::Full
                : options.effort == Effort::Quick ? tuner::Effort::Quick
                                                  : tuner::Effort::None;
  tune.seconds = options.seconds;
  tune.requireTuned = options.requireTuned;
  tune.cancelled = [cancelled] { return *cancelled; };
  if (options.progress)
    tune.progress = [progress = options.progress, cancelled](const tuner::Progress &at) {
      bool goOn = progress({.kernel = at.kernel,
                            .kernelsDone = static_cast<int>(at.index),
                            .kernels = static_cast<int>(at.count),
                            .candidatesDone = at.tried,
                            .candidates = at.planned});
      *cancelled |= !goOn;
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

} // namespace

Result<Executable> compile(const Model &model, const CompileOptions &options) {
  tuner::Store::Warn warn = [log = options.log](const std::string &line) {
    if (log)
      log(line);
  };
  Result<tuner::PlannedBench> opened = tuner::openAndPlan(*model.internals().model.module,
                                                          {.target = options.target,
                                                           .store = options.store,
                                                           .threads = options.threads,
                                                           .device = options.device,
                                                           .measureOn = {},
                                                           .requireTuned = options.requireTuned,
                                                           .warn = warn},
                                                          options.simplify);
  if (!opened)
    return opened.error();
  Result<std::unique_ptr<runtime::Device>> device = opened->bench.openHere();
  if (!device)
    return device.error();

  tuner::Workshop workshop = opened->bench.workshop(tuneOptions(options, std::make_shared<bool>(false)));
  Result<tuner::CompiledModel> compiled = tuner::compileModel(opened->planned, workshop);
  if (!compiled)
    return compiled.error();
  auto impl = std::make_shared<Executable::Impl>();
  impl->device = std::move(*device);
  impl->compiled = std::move(*compiled);
  impl->edges = model.internals().edges;
  impl->updatedStates = updatedStates(impl->compiled.main);
  return Executable(std::move(impl));
}

} // namespace kfuse
