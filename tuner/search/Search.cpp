#include "tuner/search/Search.h"

#include "tuner/record/Key.h"
#include "tuner/record/Trace.h"
#include "tuner/record/UnixTime.h"
#include "tuner/search/Failures.h"
#include "tuner/search/Finals.h"
#include "tuner/search/FirstLook.h"
#include "tuner/search/Roof.h"
#include "tuner/search/SearchClock.h"
#include "tuner/search/TrialRunner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr int firstFew = 8;             ///< So many are tried in any case, or noise would decide who is at the roof.
constexpr double finalistMargin = 1.20; ///< Finalists are within this factor of the fastest, by a first look, in which
                                        ///< the first of all finds the card cool: its clock may be a tenth up.
constexpr int longFinalists = 8;        ///< At most, where they have their own clocks: a turn takes a second then.
constexpr double alikeMargin = 1.02;    ///< What firstLookSamples cannot tell apart.
constexpr double compileShare = 0.5;    ///< The share of the time for compiling on the CPU.
constexpr double finalShare = 0.2;      ///< The share of the time kept for the finalists.

/// What is known of a choice before the search.
Choice openChoice(const TuningContext &context, const TuningTask &task) {
  Choice choice;
  choice.at = unixSeconds();
  choice.name = task.name;
  choice.ops = task.ops;
  choice.target = context.target.name;
  choice.sku = context.sku();
  choice.compiler = context.compiler.version();
  choice.driver = context.driver();
  choice.effort = context.options.effort;
  choice.region = regionKey(task.signature, task.templateName, choice.target, choice.sku, choice.compiler);
  return choice;
}

class Search {
public:
  /// `trustFailures`: candidates that the store says failed are passed over.
  Search(const TuningContext &context, CompileAhead &compiled, const TuningTask &task, const Budget &budget,
         const std::optional<codegen::TileConfig> &seed, Progress progress, bool trustFailures)
      : context(context), compiled(compiled), task(task), trustFailures(trustFailures), budget(budget),
        roof(task.work, context.currentPeaks(), budget.tie), choice(openChoice(context, task)),
        queue(task, context.target, roof.peaks(), choice.compiler, choice.sku, seed), progress(progress),
        runner(*context.device, task), clock(budget.seconds, finalShare),
        firstLook(context, runner, clock, this->budget) {}

  Result<TunedKernel> run();
  /// True when nothing works, but candidates were passed over that might by now: a check may have been mended.
  bool mayRetry() const { return foundNothing && failures.trustedCount() > 0; }

private:
  std::vector<Trial> nextBatch(int count);
  Result<void> tryBatch(std::vector<Trial> batch);
  Result<void> setUp(const Trial &trial);
  Result<void> replaceSpilled();
  Result<void> trySpilled();
  Result<void> tryOne(Trial trial, Result<runtime::CompiledKernel> binary);

  Result<void> pickFinalists();
  Result<void> fetchBinary(Trial &trial);
  Result<runtime::CompiledKernel> takeBinary(Trial &trial);
  Result<bool> makeReady(Trial &trial);
  Result<void> recheckMisled();
  Result<std::optional<Trial>> compareFinalists();
  TunedKernel keep(Trial winner);
  void raiseRoof(double measuredUs);

  bool recall(Trial &trial);
  void accept(Trial trial);
  void reject(Trial trial, const Failure &failure);

  double bestUs() const { return accepted.front().medianUs(); }
  /// On the CPU, what was not compiled in time is not compiled while others are measured.
  bool isLeftOut(const Trial &trial) const { return context.target.isCpu() && !compiled.isReady(trial.candidate.key); }
  bool isAtRoof() const { return roof.isReachedBy(bestUs()); }
  bool canWin(double boundUs) const { return accepted.empty() || roof.mayWin(boundUs, bestUs()); }
  /// Right by a reference that turned out to be wrong since.
  bool isMisled(const Trial &trial) const { return trial.loaded && !runner.isReady(trial); }
  bool hasMisled() const {
    return std::any_of(accepted.begin(), accepted.end(), [this](const Trial &trial) { return isMisled(trial); });
  }
  double allowedSeconds(const Trial &trial) const {
    return FirstLook::allowedSeconds(trial, accepted.empty() ? 0 : bestUs());
  }
  void showProgress() const;
  Error nothingWorks() const;

  const TuningContext &context;
  CompileAhead &compiled;
  const TuningTask &task;
  bool trustFailures;
  Budget budget;
  Roof roof;
  Choice choice; ///< What will be kept of the search, as far as it is known.
  CandidateQueue queue;
  Progress progress;
  TrialRunner runner;
  SearchClock clock;
  FirstLook firstLook;
  std::vector<Trial> accepted; ///< Right and timed, fastest first; finalists in the order of preference.
  std::vector<Trial> leftOut;  ///< Not in the finals, fastest first.
  std::vector<Trial> spilled;  ///< For when nothing else works.
  bool foundNothing = false;
  Failures failures;
};

/// Batch after batch of the best-ranked candidates until one works: a budget removes candidates, never
/// kernels. The fastest of them are compared again.
Result<TunedKernel> Search::run() {
  while (accepted.empty() && queue.remaining() > 0)
    if (Result<void> tried = tryBatch(nextBatch(budget.candidates)); !tried)
      return tried.error();
  if (Result<void> tried = replaceSpilled(); !tried)
    return tried.error();
  if (accepted.empty())
    if (Result<void> tried = trySpilled(); !tried)
      return tried.error();
  DeviceLock quiet = context.forMeasuring();
  clock.extend(context.extension(quiet));
  Result<std::optional<Trial>> winner = std::optional<Trial>();
  while (!*winner && !accepted.empty()) {
    if (Result<void> picked = pickFinalists(); !picked)
      return picked.error();
    winner = compareFinalists();
    if (!winner)
      return winner.error();
    if (!*winner) // All of them failed, though they had passed: those behind them play.
      accepted = std::exchange(leftOut, {});
  }
  foundNothing = !*winner;
  if (foundNothing)
    return nothingWorks();
  return keep(std::move(**winner));
}

/// No template knows for sure what the compiler makes of its registers: a candidate that spilled cost a compilation,
/// and gives its place to the next in the ranking.
Result<void> Search::replaceSpilled() {
  int replaced = 0;
  while (choice.stop == StopReason::None && queue.remaining() > 0) {
    const int open = std::min(static_cast<int>(spilled.size()), budget.replacements) - replaced;
    std::vector<Trial> batch = nextBatch(open);
    if (batch.empty())
      break;
    replaced += static_cast<int>(batch.size());
    if (Result<void> tried = tryBatch(std::move(batch)); !tried)
      return tried;
  }
  return {};
}

std::vector<Trial> Search::nextBatch(int count) {
  std::vector<Trial> batch;
  while (static_cast<int>(batch.size()) < count) {
    std::optional<Candidate> candidate = queue.next();
    if (!candidate)
      break;
    Trial trial;
    trial.measurement.kernel = candidate->key;
    trial.measurement.region = choice.region;
    trial.measurement.config = candidate->config;
    trial.measurement.driver = context.driver();
    trial.measurement.estimateUs = candidate->estimateUs;
    trial.candidate = std::move(*candidate);
    batch.push_back(std::move(trial));
  }
  return batch;
}

/// Compilation runs ahead of the device. On the CPU it would disturb the timings, so it ends first.
Result<void> Search::tryBatch(std::vector<Trial> batch) {
  progress.candidates += static_cast<int>(batch.size());
  std::vector<Trial> unknown;
  for (Trial &trial : batch) {
    if (recall(trial)) {
      ++progress.candidatesDone;
      continue;
    }
    compiled.want(trial.candidate.key, trial.candidate.plan);
    unknown.push_back(std::move(trial));
  }
  if (context.target.isCpu()) {
    DeviceLock busy = context.forCompiling();
    clock.extend(context.extension(busy));
    compiled.finishBy(clock.at(compileShare));
  } else if (accepted.empty() && !unknown.empty()) {
    if (Result<void> ready = setUp(unknown.front()); !ready)
      return ready;
  }
  std::vector<Trial> beaten;  // What those accepted beat.
  std::vector<Trial> retried; // What was beaten by one that has turned out to be wrong since.
  for (Trial &trial : unknown) {
    if (context.isCancelled())
      return Error{ErrorCode::Cancelled, fmt::format("tuning was cancelled at kernel {}", task.name)};
    if (!accepted.empty() && isAtRoof() && progress.candidatesDone >= firstFew)
      choice.stop = StopReason::Roof;
    else if (!accepted.empty() && (clock.isOutOfTime() || isLeftOut(trial)))
      choice.stop = StopReason::Budget;
    if (choice.stop != StopReason::None || !canWin(trial.candidate.boundUs)) {
      compiled.drop(trial.candidate.key);
      --progress.candidates;
      if (choice.stop == StopReason::Budget) {
        ++choice.cut;
        continue;
      }
      ++choice.ruledOut;
      beaten.push_back(std::move(trial));
      continue;
    }
    ++progress.candidatesDone;
    Result<runtime::CompiledKernel> binary = takeBinary(trial);
    // The first one that works pays for inputs and the oracle, too, and says nothing about the next.
    const bool isSetUp = !accepted.empty();
    const double secondsBefore = clock.secondsLeft();
    if (Result<void> tried = tryOne(std::move(trial), std::move(binary)); !tried)
      return tried;
    if (isSetUp)
      clock.lastTook(secondsBefore - clock.secondsLeft());
    if (hasMisled()) {
      DeviceLock quiet = context.forMeasuring();
      clock.extend(context.extension(quiet));
      if (Result<void> checked = recheckMisled(); !checked)
        return checked;
      choice.stop = StopReason::None;
      choice.ruledOut -= static_cast<int>(beaten.size());
      std::move(beaten.begin(), beaten.end(), std::back_inserter(retried));
      beaten.clear();
    }
    progress.bestUs = accepted.empty() ? 0 : bestUs();
    showProgress();
  }
  if (!retried.empty())
    return tryBatch(std::move(retried));
  if (!accepted.empty() && isAtRoof())
    choice.stop = StopReason::Roof;
  return {};
}

/// Makes the bench, while candidates compile.
Result<void> Search::setUp(const Trial &trial) {
  DeviceLock quiet = context.forMeasuring();
  clock.extend(context.extension(quiet));
  return runner.setUp(trial.candidate.plan);
}

/// The best-ranked candidate that works although its registers spill.
Result<void> Search::trySpilled() {
  firstLook.allowSpills();
  for (Trial &trial : std::exchange(spilled, {})) {
    failures.takeBack();
    Result<runtime::CompiledKernel> binary = compiled.take(trial.candidate.key, trial.candidate.plan);
    if (Result<void> tried = tryOne(std::move(trial), std::move(binary)); !tried || !accepted.empty())
      return tried;
  }
  return {};
}

Result<void> Search::tryOne(Trial trial, Result<runtime::CompiledKernel> binary) {
  if (!binary && binary.error().code != ErrorCode::Compile)
    return binary.error();
  if (!binary) {
    reject(std::move(trial), {FailureKind::Compile, binary.error().message});
    return {};
  }
  trial.binary = std::move(*binary);
  MaybeFailure failure = firstLook.at(trial, accepted.empty() ? 0 : bestUs());
  if (!failure) {
    if (failure.error().code == ErrorCode::NoDevice && runner.isSetUp()) // The next run must not fall into it, too.
      reject(std::move(trial), {FailureKind::Crash, failure.error().message});
    return failure.error();
  }
  if (*failure) {
    reject(std::move(trial), **failure);
    return {};
  }
  context.store.put(trial.measurement);
  accept(std::move(trial));
  return {};
}

/// Keeps the fastest few and makes those known only from the store ready to run. Which of those that few samples cannot
/// tell apart get in is for the order of ties, not for chance: the winner is one that got in.
Result<void> Search::pickFinalists() {
  std::vector<Trial> candidates = std::exchange(accepted, {});
  const double fastestUs = candidates.front().medianUs();
  auto alike = std::find_if(candidates.begin(), candidates.end(),
                            [&](const Trial &trial) { return trial.medianUs() > alikeMargin * fastestUs; });
  for (auto trial = candidates.begin(); trial != alike; ++trial)
    // Registers count, and what comes from the store has none yet. What fails here fails in makeReady(), too.
    std::ignore = fetchBinary(*trial);
  std::sort(candidates.begin(), alike, isPreferred);
  const bool mayBeLong = finalistMargin * fastestUs > budget.ownClockUs;
  const auto finalists = static_cast<std::size_t>(mayBeLong ? longFinalists : budget.finalists);
  for (Trial &trial : candidates) {
    if (accepted.size() == finalists || (!accepted.empty() && trial.medianUs() > finalistMargin * fastestUs)) {
      leftOut.push_back(std::move(trial));
      continue;
    }
    Result<bool> ready = makeReady(trial);
    if (!ready)
      return ready.error();
    if (*ready)
      accepted.push_back(std::move(trial));
  }
  if (hasMisled()) {
    if (Result<void> checked = recheckMisled(); !checked)
      return checked;
    // The time of a wrong one may have ruled out others.
    std::move(leftOut.begin(), leftOut.end(), std::back_inserter(accepted));
    leftOut.clear();
    std::sort(accepted.begin(), accepted.end(), isFaster);
    return accepted.empty() ? Result<void>() : pickFinalists();
  }
  std::sort(accepted.begin(), accepted.end(), isPreferred);
  std::sort(leftOut.begin(), leftOut.end(), isFaster);
  return {};
}

Result<void> Search::fetchBinary(Trial &trial) {
  Result<runtime::CompiledKernel> binary = takeBinary(trial);
  if (!binary)
    return binary.error();
  trial.binary = std::move(*binary);
  return {};
}

/// What was compiled for the trial, which has it no more.
Result<runtime::CompiledKernel> Search::takeBinary(Trial &trial) {
  if (!trial.binary.image.empty())
    return std::exchange(trial.binary, {});
  Span span("await binary", task.name + " " + trial.candidate.config.str());
  return compiled.take(trial.candidate.key, trial.candidate.plan);
}

/// Compiles, loads and checks what is known only from the store, and checks again what was right by a wrong reference;
/// false when it fails now.
Result<bool> Search::makeReady(Trial &trial) {
  if (runner.isReady(trial))
    return true;
  Result<void> fetched = fetchBinary(trial);
  if (!fetched && fetched.error().code != ErrorCode::Compile)
    return fetched.error();
  if (!fetched) {
    reject(std::move(trial), {FailureKind::Compile, fetched.error().message});
    return false;
  }
  MaybeFailure failure = runner.check(trial, allowedSeconds(trial));
  if (!failure)
    return failure.error();
  if (*failure)
    reject(std::move(trial), **failure);
  return !*failure;
}

/// Checks those accepted again that are misled, until none is.
Result<void> Search::recheckMisled() {
  while (hasMisled())
    for (Trial &trial : std::exchange(accepted, {})) {
      Result<bool> ready = isMisled(trial) ? makeReady(trial) : true;
      if (!ready)
        return ready.error();
      if (*ready)
        accepted.push_back(std::move(trial));
    }
  return {};
}

/// The winner, or none when all fail, or when the winner was right by a reference that others proved wrong after its
/// last visit, and is wrong: then those behind it are left to play.
Result<std::optional<Trial>> Search::compareFinalists() {
  Span span("finals", task.name);
  Result<Finals::Outcome> outcome = Finals(runner, budget, clock.start())
                                        .play(std::exchange(accepted, {}), [this](Trial trial, const Failure &failure) {
                                          reject(std::move(trial), failure);
                                        });
  if (!outcome)
    return outcome.error();
  for (const Trial &trial : outcome->others)
    context.store.put(trial.measurement);
  if (outcome->winner && isMisled(*outcome->winner)) {
    Result<bool> ready = makeReady(*outcome->winner);
    if (!ready)
      return ready.error();
    if (!*ready) {
      leftOut.insert(leftOut.begin(), std::make_move_iterator(outcome->others.begin()),
                     std::make_move_iterator(outcome->others.end()));
      outcome->winner.reset();
    }
  }
  if (outcome->winner)
    context.store.put(outcome->winner->measurement);
  return std::move(outcome->winner);
}

TunedKernel Search::keep(Trial winner) {
  const bool isExhausted = queue.remaining() == 0 || !roof.mayWin(queue.leastBoundUs(), winner.medianUs());
  raiseRoof(winner.medianUs());
  choice.conditions = context.device->conditions().value_or(runtime::Conditions{});
  choice.kernel = winner.candidate.key;
  choice.config = winner.candidate.config;
  choice.timing = winner.measurement.timing;
  choice.candidates = progress.candidatesDone;
  choice.failed = failures.count();
  if (choice.stop == StopReason::None)
    choice.stop = isExhausted ? StopReason::Exhausted : StopReason::Candidates;
  context.store.put(choice, winner.binary);
  return {std::move(winner.candidate.plan), std::move(winner.binary), reportOf(task, choice, roof.bound(), false)};
}

/// What beats its bound has found a ceiling too low.
void Search::raiseRoof(double measuredUs) {
  if (std::optional<std::string> remark = roof.raise(task.name, measuredUs)) {
    context.log(*remark);
    context.store.put(choice.sku, roof.peaks());
  }
}

/// Takes over what the store knows of the candidate under this driver; false when it must be tried.
bool Search::recall(Trial &trial) {
  std::optional<Measurement> known = context.store.findMeasurement(trial.candidate.key);
  if (!known || known->driver != context.driver())
    return false;
  if (known->timing) {
    trial.measurement.timing = known->timing;
    accept(std::move(trial));
    return true;
  }
  if (!known->failure)
    return false;
  bool mayWorkNow = known->failure->kind != FailureKind::Crash;
  if (mayWorkNow && !trustFailures)
    return false;
  if (mayWorkNow)
    failures.trust();
  failures.note(*known->failure, fmt::format("{}: {}", trial.candidate.config.str(), known->failure->message));
  if (known->failure->kind == FailureKind::Spill)
    spilled.push_back(std::move(trial));
  return true;
}

void Search::accept(Trial trial) {
  auto place = std::upper_bound(accepted.begin(), accepted.end(), trial, isFaster);
  accepted.insert(place, std::move(trial));
}

/// A failure is a row in the store.
void Search::reject(Trial trial, const Failure &failure) {
  std::string line = fmt::format("{} with {}: {}: {}", task.name, trial.candidate.config.str(), toString(failure.kind),
                                 failure.message);
  context.log(line);
  failures.note(failure, line);
  trial.measurement.timing.reset();
  trial.measurement.failure = failure;
  context.store.put(trial.measurement);
  if (failure.kind == FailureKind::Spill)
    spilled.push_back(std::move(trial));
}

void Search::showProgress() const {
  if (context.options.progress)
    context.options.progress(progress);
}

/// The error has the kind of the first failure noted.
Error Search::nothingWorks() const {
  const Error &refusal = queue.lastRefusal();
  const std::string &reason = failures.firstLine().empty() ? refusal.message : failures.firstLine();
  const bool isBug = failures.firstLine().empty() && refusal.code == ErrorCode::Internal;
  return {isBug ? ErrorCode::Internal : failures.code(),
          fmt::format("none of {} candidates works for kernel {} ({}): {}", task.space->candidates().size(), task.name,
                      task.ops, reason.empty() ? "there are none" : reason)};
}

} // namespace

Result<TunedKernel> search(const TuningContext &context, CompileAhead &compiled, const TuningTask &task,
                           const Budget &budget, const std::optional<codegen::TileConfig> &seed,
                           const Progress &progress) {
  Search first(context, compiled, task, budget, seed, progress, true);
  Result<TunedKernel> kernel = first.run();
  if (kernel || !first.mayRetry())
    return kernel;
  return Search(context, compiled, task, budget, seed, progress, false).run();
}

} // namespace kfuse::tuner
