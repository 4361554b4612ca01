#include "tuner/search/RunnersUp.h"

#include "tuner/record/Key.h"
#include "tuner/search/Candidates.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr double nearFactor = 1.05; // Times the winner's time. 1.1, with six runners-up, took longer and found no more.
constexpr std::size_t most = 4;

/// The measurement's kernel, or nothing where its config makes another one by now.
std::optional<RunnerUp> remake(const TuningContext &context, const TuningTask &task, const Measurement &measurement) {
  Result<codegen::KernelPlan> plan = emitStored(task, measurement.config);
  if (!plan || tuningKey(*plan, context.compiler.version(), context.sku()) != measurement.kernel)
    return std::nullopt;
  return RunnerUp{measurement, std::move(*plan)};
}

} // namespace

std::vector<RunnerUp> runnersUpOf(const TuningContext &context, const TuningTask &task, const TunedKernel &winner) {
  const std::string winnerKey = tuningKey(winner.plan, context.compiler.version(), context.sku());
  const double nearUs = nearFactor * winner.report.measuredUs.value_or(0);
  std::vector<Measurement> near = context.store.findMeasurements(winner.report.region);
  std::erase_if(near, [&](const Measurement &trial) {
    return trial.kernel == winnerKey || trial.driver != context.driver() || !trial.timing ||
           trial.timing->samples <= firstLookSamples || trial.timing->medianUs > nearUs;
  });
  std::ranges::sort(near, {},
                    [](const Measurement &trial) { return std::pair(trial.timing->medianUs, trial.config.str()); });
  std::set<std::string> kinds;
  auto isNewKind = [&](const codegen::TileConfig &config) {
    const std::optional<codegen::TileConfig> kind = task.space->kindOf(config);
    return kind && kinds.insert(kind->str()).second;
  };
  if (std::optional<codegen::TileConfig> config = codegen::TileConfig::parse(winner.report.config))
    isNewKind(*config);
  std::vector<RunnerUp> runnersUp, duplicates;
  for (const Measurement &trial : near)
    if (std::optional<RunnerUp> runnerUp = remake(context, task, trial)) // First: kinds are of this version's configs.
      (isNewKind(trial.config) ? runnersUp : duplicates).push_back(std::move(*runnerUp));
  std::ranges::move(duplicates, std::back_inserter(runnersUp));
  runnersUp.resize(std::min(runnersUp.size(), most));
  return runnersUp;
}

} // namespace kfuse::tuner
