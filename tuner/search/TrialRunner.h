// Runs the trials of one kernel on a device that they may take down.
#pragma once

#include "tuner/search/Bench.h"
#include "tuner/search/Trial.h"

#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace kfuse::tuner {

/// Nothing when all is well; a Failure of the candidate; an Error that ends the search.
using MaybeFailure = Result<std::optional<Failure>>;

class TrialRunner {
public:
  using Clock = std::chrono::steady_clock;

  /// Both must outlive it.
  TrialRunner(runtime::Device &device, const TuningTask &task) : device(device), task(task) {}

  /// Makes the bench, unless it is there. `plan` is any candidate's. A device that went down since it was last used, or
  /// goes down meanwhile, comes up again. NoDevice when it does not.
  Result<void> setUp(const codegen::KernelPlan &plan);
  bool isSetUp() const { return bench.has_value(); }
  /// Loads the trial's binary and checks one run, which may take `allowedSeconds`. A device that goes down comes up
  /// again. NoDevice when it does not.
  MaybeFailure check(Trial &trial, double allowedSeconds);
  /// Appends the microseconds of timed runs to `times`; what is not ready, or was loaded before the device went down,
  /// is checked anew.
  MaybeFailure measure(Trial &trial, const runtime::MeasureOptions &options, std::vector<double> &times);
  /// Loads the trial's binary once more, where no load of it has been. What is not ready is left to measure().
  MaybeFailure loadElsewhere(Trial &trial);
  /// Whether the trial is loaded, and was found right by what the bench still believes.
  bool isReady(const Trial &trial) const { return trial.loaded && trial.timesMisled == bench->timesMisled(); }
  /// What was spent on starting the device anew and preparing it, since this was last asked.
  Clock::duration takeRepairTime() { return std::exchange(repairTime, {}); }
  /// Wall-clock seconds of the last check's run.
  double lastRunSeconds() const { return bench->lastRunSeconds(); }

private:
  template <class Step> MaybeFailure survive(Trial &trial, const Step &step);
  MaybeFailure loadOnce(Trial &trial);
  MaybeFailure checkOnce(Trial &trial);
  MaybeFailure measureOnce(Trial &trial, const runtime::MeasureOptions &options, std::vector<double> &times);
  Result<void> persist(const std::function<Result<void>()> &step);
  bool isDown(const Failure &failure);
  Result<void> startAnew();
  Result<void> restart(const Trial &trial, const Failure &failure);

  runtime::Device &device;
  const TuningTask &task;
  std::optional<Bench> bench; ///< Made for the first trial.
  double allowedSeconds = 0;
  int life = 0;         ///< Times the device was restarted.
  bool isFresh = false; ///< Nothing has run since the device was restarted.
  Clock::duration repairTime{};
};

} // namespace kfuse::tuner
