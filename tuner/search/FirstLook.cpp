#include "tuner/search/FirstLook.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr double slowShare = 0.25; ///< One run that takes a larger share of the time is not repeated.
constexpr double longRunSeconds =
    0.01;                            ///< A check that takes so long was warm-up enough, and, on a GPU, the first look.
constexpr double timeoutFactor = 50; ///< A run may take this many times the fastest.
constexpr double timeoutSeconds = 1; ///< A run may take this long at least.
constexpr double patienceFactor = 200; ///< Until one is known a run may take this many times the estimate.
constexpr double patienceSeconds = 5;  ///< Until one is known a run may take this long at least.

} // namespace

MaybeFailure FirstLook::at(Trial &trial, double bestUs) {
  const runtime::ResourceFacts &facts = trial.binary.facts;
  if (std::optional<std::string> misfit = whyNotFit(trial.candidate.plan, facts, context.target))
    return std::optional(Failure{FailureKind::Launch, *misfit});
  if (facts.spillBytes > 0 && !maySpill)
    return std::optional(Failure{FailureKind::Spill, fmt::format("spills {} bytes of registers", facts.spillBytes)});
  DeviceLock quiet = context.forMeasuring(); // First: a trial that waits has not begun.
  clock.extend(context.extension(quiet));
  if (Result<void> ready = runner.setUp(trial.candidate.plan); !ready) // Nor has one with no device to run on.
    return ready.error();
  if (!context.store.beginTrial(trial.measurement))
    return std::optional(Failure{FailureKind::Crash, "the machine went down twice while it ran"});
  MaybeFailure failure = checkAndMeasure(trial, bestUs);
  clock.extend(runner.takeRepairTime());
  return failure;
}

MaybeFailure FirstLook::checkAndMeasure(Trial &trial, double bestUs) {
  if (MaybeFailure failure = runner.check(trial, allowedSeconds(trial, bestUs)); !failure || *failure)
    return failure;
  const double checkSeconds = runner.lastRunSeconds();
  const bool isLong = checkSeconds > longRunSeconds;
  // A check is timed by the host, which may have been busy elsewhere: unless the model says so, too, it proves nothing.
  const bool isExpected = trial.candidate.estimateUs * 1e-6 > longRunSeconds / 2;
  // That run is its one sample.
  if ((isLong && isExpected && !context.target.isCpu()) || checkSeconds > slowShare * budget.seconds) {
    trial.measurement.timing = Timing{checkSeconds * 1e6, 0, 1};
    return std::optional<Failure>();
  }
  runtime::MeasureOptions options;
  options.repetitions = firstLookSamples;
  options.maxSeconds = budget.firstLookShare * std::min(budget.wantedSeconds, budget.seconds);
  if (isLong)
    options.warmupMs = 0;
  std::vector<double> times;
  const SearchClock::Clock::time_point began = SearchClock::Clock::now();
  if (MaybeFailure failure = runner.measure(trial, options, times); !failure || *failure)
    return failure;
  trial.sampleSeconds =
      std::chrono::duration<double>(SearchClock::Clock::now() - began).count() / static_cast<double>(times.size());
  trial.measurement.timing = summarise(std::move(times));
  return std::optional<Failure>();
}

double FirstLook::allowedSeconds(const Trial &trial, double bestUs) {
  return bestUs == 0 ? std::max(patienceSeconds, patienceFactor * trial.candidate.estimateUs * 1e-6)
                     : std::max(timeoutSeconds, timeoutFactor * bestUs * 1e-6);
}

} // namespace kfuse::tuner
