// Chooses a config for each kernel: from the store, by search on the device, or by the cost model.
#pragma once

#include "ir/Target.h"
#include "kfuse/tuning.h"
#include "runtime/Device.h"
#include "tuner/peaks/DeviceLock.h"
#include "tuner/report/Report.h"
#include "tuner/search/TuningTask.h"
#include "tuner/store/Store.h"

#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace kfuse::tuner {

struct TuneOptions {
  Effort effort = Effort::Quick;
  double secondsPerKernel = 0; ///< On average; 0: budgetOf(), 4 s (quick) or 5 s (full), on the CPU 2 or 20 s.
  double seconds = 0;          ///< For all kernels together, shared by TimeShares; 0: those of each, added up.
  bool endToEnd = true;        ///< Off: each kernel is chosen by its own time, not between near ones by a whole run's.
  unsigned compileThreads = 0; ///< 0: one per core, shared with the processes that onMiss() tells of.
  bool requireTuned = false;   ///< Compile nothing: kernels that the store lacks are a NotTuned error.
  /// Once, before the first search: how many kernels there are to do. Returns how many processes will do them.
  std::function<unsigned(std::size_t kernels)> onMiss;
  std::function<void(const Progress &)> progress;
  /// Ends the tuning with Cancelled, whatever it waits for; Workbench::context() gives its own.
  std::stop_token stop;
  std::function<void(const std::string &)> log; ///< Why the store missed; what failed.
  /// What disturbs the work; Workbench::context() gives its own.
  std::function<void(const std::string &)> warn;
};

/// What an effort allows for one kernel.
struct Budget {
  int candidates = 0;
  int replacements = 0;          ///< Further candidates, each for one that spills registers.
  double seconds = 0;            ///< The limit; candidates that do not fit in are cut.
  double wantedSeconds = 0;      ///< Once it has passed, finals end after their first turns; may exceed `seconds`.
  int finalists = 0;             ///< Candidates that come to the finals.
  int rounds = 0;                ///< The rounds of the finals after the first (Finals).
  double tie = 0;                ///< The gap allowed between the winner and the fastest.
  double runsPerSample = 0;      ///< Runs in a sample of a long kernel.
  double singleRunUs = INFINITY; ///< A sample of a kernel longer than this takes a single run.
  /// The share of the time that a search should take for which the first look at a candidate may go on. On the CPU it
  /// evicts the cache before each sample, which takes 10 to 200 ms.
  double firstLookShare = 0;
  double ownClockUs = INFINITY; ///< Longer kernels are visited for as long as a card takes to come to their clock.
  double endToEndSeconds = 0;   ///< For the whole model, once its kernels are chosen (chooseEndToEnd); 0: not done.
  double movedUs = 0;           ///< Shorter kernels are loaded anew, elsewhere in memory, for each pair of turns.
};

/// What every part of the tuner works with. `device` is null where the target is not present.
struct TuningContext {
  const ir::Target &target;
  runtime::KernelCompiler &compiler;
  runtime::Device *device;
  Store &store;
  Peaks peaks;
  TuneOptions options;
  std::shared_ptr<LockPatience> patience = std::make_shared<LockPatience>();

  std::string sku() const { return device ? device->sku() : ""; }
  std::string driver() const { return device ? device->driver() : ""; }
  /// Whether kernels are chosen by their times; else by the cost model alone.
  bool measures() const { return device && options.effort != Effort::None; }
  /// The peaks, with what was learnt about them since.
  Peaks currentPeaks() const { return peaks.measured ? store.findPeaks(sku()).value_or(peaks) : peaks; }
  bool isCancelled() const { return options.stop.stop_requested(); }
  /// Nobody else measures on the device, nor compiles if it is the CPU.
  DeviceLock forMeasuring() const { return {device->id(), DeviceLock::Use::Alone, store.sharedFolder(), *patience}; }
  /// Nobody measures on the CPU.
  DeviceLock forCompiling() const { return {device->id(), DeviceLock::Use::Shared, store.sharedFolder(), *patience}; }
  /// What a search may take longer for having waited for the lock: nothing where a limit was asked for.
  std::chrono::steady_clock::duration extension(const DeviceLock &lock) const {
    return options.seconds > 0 ? std::chrono::steady_clock::duration() : lock.waited();
  }
  void log(const std::string &line) const {
    if (options.log)
      options.log(line);
  }
  void warn(const std::string &line) const {
    if (options.warn)
      options.warn(line);
  }
};

Budget budgetOf(const TuningContext &context);
/// The same for a kernel of whose ops another program has a winner, in a shape near to this one.
Budget budgetBesideWinner(const TuningContext &context);

struct TunedKernel {
  codegen::KernelPlan plan;
  runtime::CompiledKernel binary;
  KernelReport report;
  bool isNew = false; ///< Searched since this call of tune() began, be it by another process.
};

/// The row of the table for `task` with the config that was chosen for it.
KernelReport reportOf(const TuningTask &task, const Choice &choice, const Roofline &bound, bool fromCache);

/// One kernel per task, in order. Each is taken from the store if it is there; else candidates are
/// compiled, checked and measured on the device, or without a device or effort the best-ranked one is
/// compiled. Processes that share a store share the work: each task is searched by whoever leases it first, and the
/// others take the result.
/// Errors: NotTuned (which lists every kernel that is missing), Cancelled, Compile when no candidate of a task
/// works, NoDevice when a candidate took the device down (it is noted, so that the next run passes it over),
/// OutOfMemory.
Result<std::vector<TunedKernel>> tune(const TuningContext &context, std::span<const TuningTask> tasks);

} // namespace kfuse::tuner
