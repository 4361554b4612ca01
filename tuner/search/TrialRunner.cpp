#include "tuner/search/TrialRunner.h"

#include "tuner/record/Trace.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>

namespace kfuse::tuner {
namespace {

const MaybeFailure fine{std::optional<Failure>()};

/// What an error of the device says of the candidate that ran; any other ends the search.
MaybeFailure blame(const Error &error) {
  switch (error.code) {
  case ErrorCode::Timeout:
    return std::optional(Failure{FailureKind::Timeout, error.message});
  case ErrorCode::Crash:
    return std::optional(Failure{FailureKind::Crash, error.message});
  case ErrorCode::OutOfMemory:
  case ErrorCode::WrongResult:
  case ErrorCode::Cancelled:
    return error;
  default:
    return std::optional(Failure{FailureKind::Launch, error.message});
  }
}

/// Whether the worker process has ended: calls fail until it is started anew.
bool isLoss(const Error &error) { return error.code == ErrorCode::Crash || error.code == ErrorCode::Timeout; }

} // namespace

Result<void> TrialRunner::setUp(const codegen::KernelPlan &plan) {
  if (bench)
    return {};
  Span span("set up", task.name);
  return persist([&]() -> Result<void> {
    Result<Bench> made = Bench::make(device, task, plan);
    if (!made)
      return made.error();
    bench.emplace(std::move(*made));
    return {};
  });
}

MaybeFailure TrialRunner::check(Trial &trial, double seconds) {
  if (Result<void> ready = setUp(trial.candidate.plan); !ready)
    return ready.error();
  allowedSeconds = seconds;
  device.limitRuns(seconds);
  return survive(trial, [&] { return checkOnce(trial); });
}

MaybeFailure TrialRunner::measure(Trial &trial, const runtime::MeasureOptions &options, std::vector<double> &times) {
  return survive(trial, [&] { return measureOnce(trial, options, times); });
}

MaybeFailure TrialRunner::loadElsewhere(Trial &trial) {
  if (!isReady(trial) || trial.life != life)
    return fine;
  Span span("load", task.name + " " + trial.candidate.config.str());
  return survive(trial, [&] {
    MaybeFailure loaded = loadOnce(trial);
    const bool failed = !loaded || *loaded;
    return failed && bench->deviceAnswers() ? fine : loaded; // It runs where it lies, with memory short, say.
  });
}

/// Does the step; a device that goes down comes up again. One that crashed may have been damaged by another
/// candidate before: alone on a fresh device, each answers for itself.
template <class Step> MaybeFailure TrialRunner::survive(Trial &trial, const Step &step) {
  while (true) {
    const bool wasFresh = std::exchange(isFresh, false);
    MaybeFailure failure = step();
    if (!failure || !*failure || !isDown(**failure))
      return failure;
    if ((*failure)->kind == FailureKind::Launch)
      (*failure)->kind = FailureKind::Crash;
    if (Result<void> restarted = restart(trial, **failure); !restarted)
      return restarted.error();
    if (wasFresh || (*failure)->kind != FailureKind::Crash)
      return failure;
  }
}

/// Does what runs no candidate, and once more after a device that it found down, or that went down in it, came up
/// again.
Result<void> TrialRunner::persist(const std::function<Result<void>()> &step) {
  Result<void> done = step();
  if (done || !isLoss(done.error()))
    return done;
  done = startAnew();
  if (done)
    done = step();
  if (done || done.error().code == ErrorCode::OutOfMemory || done.error().code == ErrorCode::Cancelled)
    return done;
  return Error{ErrorCode::NoDevice,
               fmt::format("the device was lost while no candidate of {} ran: {}; what was measured is kept: run again "
                           "to go on",
                           task.name, done.error().message)};
}

MaybeFailure TrialRunner::loadOnce(Trial &trial) {
  Result<std::unique_ptr<runtime::LoadedKernel>> loaded = device.load(trial.candidate.plan, trial.binary);
  if (!loaded)
    return blame(loaded.error());
  trial.runs = {};
  if (trial.loaded)
    trial.earlierLoads.push_back(std::move(trial.loaded));
  trial.loaded = std::move(*loaded);
  return fine;
}

MaybeFailure TrialRunner::checkOnce(Trial &trial) {
  Span span("check", task.name + " " + trial.candidate.config.str());
  if (MaybeFailure failure = loadOnce(trial); !failure || *failure)
    return failure;
  trial.life = life;
  MaybeFailure failure = bench->check(*trial.loaded, trial.candidate.plan);
  if (!failure)
    return blame(failure.error());
  if (*failure)
    return failure;
  if (bench->lastRunSeconds() > allowedSeconds)
    return std::optional(Failure{FailureKind::Timeout, fmt::format("one run took {:.2g} s, allowed are {:.2g} s",
                                                                   bench->lastRunSeconds(), allowedSeconds)});
  trial.timesMisled = bench->timesMisled();
  return fine;
}

MaybeFailure TrialRunner::measureOnce(Trial &trial, const runtime::MeasureOptions &options,
                                      std::vector<double> &times) {
  if (!isReady(trial) || trial.life != life)
    if (MaybeFailure failure = checkOnce(trial); !failure || *failure)
      return failure;
  Span span("measure", task.name + " " + trial.candidate.config.str());
  Result<std::vector<double>> measured = bench->measure(*trial.loaded, trial.candidate.plan, trial.runs, options);
  if (!measured)
    return blame(measured.error());
  times.insert(times.end(), measured->begin(), measured->end());
  return fine;
}

/// Whether the failure left a device that no other candidate should be judged on.
bool TrialRunner::isDown(const Failure &failure) {
  return failure.kind == FailureKind::Overrun || !bench->deviceAnswers();
}

/// A fresh device, ready to measure on. What fails in getting it ready shows again in what comes next.
Result<void> TrialRunner::startAnew() {
  const Clock::time_point begin = Clock::now();
  if (Result<void> restarted = device.restart(); !restarted)
    return restarted;
  std::ignore = device.prepareMeasuring();
  repairTime += Clock::now() - begin;
  isFresh = true;
  ++life;
  return {};
}

/// A fresh device, where it can be had; memory written anew, where the device is the same but alive.
Result<void> TrialRunner::restart(const Trial &trial, const Failure &failure) {
  Result<void> restarted = startAnew();
  if (!restarted && restarted.error().code == ErrorCode::Cancelled)
    return restarted;
  if (restarted || bench->deviceAnswers()) {
    const Clock::time_point begin = Clock::now();
    const Clock::duration before = repairTime;
    Result<void> rebuilt = persist([&] { return bench->rebuild(); });
    repairTime = before + (Clock::now() - begin); // Another restart in it included, once.
    return rebuilt;
  }
  return Error{ErrorCode::NoDevice,
               fmt::format("the device was lost with {} of {}: {} ({}); what was measured is kept: run again to go on",
                           trial.candidate.config.str(), task.name, failure.message, restarted.error().message)};
}

} // namespace kfuse::tuner
