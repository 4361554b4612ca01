#include "tuner/Search.h"

#include "tuner/Bench.h"
#include "tuner/Candidates.h"
#include "tuner/CompileAhead.h"
#include "tuner/Key.h"
#include "tuner/Trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr double goodEnough = 0.97;     ///< Share of the roofline at which looking further cannot pay.
constexpr int firstSamples = 3;         ///< Of every candidate.
constexpr double finalistMargin = 1.10; ///< Finalists are within this factor of the fastest ...
constexpr std::size_t maxFinalists = 4; ///< ... and not more than these.
constexpr int finalSamples = 10;        ///< Of each, in two visits.
constexpr double finalShare = 0.2;      ///< Of the time, kept for the finalists.
constexpr double slowShare = 0.25;      ///< Of the time: one run that takes more is not repeated.
constexpr double timeoutFactor = 50;    ///< Times the fastest, but at least ...
constexpr double timeoutSeconds = 1;

constexpr double patience = 5;         ///< Seconds, or ...
constexpr double patienceFactor = 200; ///< ... times the estimate, that the first run may take.

using MaybeFailure = Result<std::optional<Failure>>;

/// What an error of the device says of the candidate that ran; any other ends the search.
MaybeFailure blame(const Error &error) {
  switch (error.code) {
  case ErrorCode::Timeout:
    return std::optional(Failure{FailureKind::Timeout, error.message});
  case ErrorCode::Crash:
    return std::optional(Failure{FailureKind::Crash, error.message});
  case ErrorCode::OutOfMemory:
  case ErrorCode::WrongResult:
    return error;
  default:
    return std::optional(Failure{FailureKind::Launch, error.message});
  }
}

/// A candidate on its way.
struct Trial {
  Candidate candidate;
  Measurement measurement;
  runtime::CompiledKernel binary;
  std::unique_ptr<runtime::LoadedKernel> loaded; ///< Null while all that is known is from the store.
  int life = 0;                                  ///< Of the device it was loaded in.

  double medianUs() const { return measurement.timing->medianUs; }
};

bool isFaster(const Trial &a, const Trial &b) { return a.medianUs() < b.medianUs(); }

/// Order of candidates that are equally fast: the same on every run and machine.
auto tieRank(const Trial &trial) {
  std::uint64_t shared = 0;
  for (const codegen::Launch &launch : trial.candidate.plan.launches)
    shared += launch.sharedBytes;
  const runtime::ResourceFacts &facts = trial.binary.facts;
  return std::tuple(facts.spillBytes, facts.registers, shared + facts.staticSharedBytes, trial.candidate.config.str());
}

class Search {
public:
  /// `trustFailures`: candidates that the store says failed are passed over.
  Search(const Workshop &shop, const TuningTask &task, const std::optional<codegen::TileConfig> &seed,
         Progress progress, bool trustFailures)
      : shop(shop), task(task), trustFailures(trustFailures), compilerVersion(shop.compiler.version()),
        budget(budgetOf(shop.options)), bound(roofline(task.work, shop.peaks)),
        region(regionKey(task.signature, task.templateName, shop.target.name, shop.sku(), compilerVersion)),
        queue(task, shop.target, compilerVersion, shop.sku(), seed), progress(std::move(progress)) {}

  Result<TunedKernel> run();
  /// True when candidates were passed over that might work by now: a check may have been mended.
  bool mayRetry() const { return trustedFailures > 0; }

private:
  using Clock = std::chrono::steady_clock;

  std::vector<Trial> nextBatch();
  Result<void> tryBatch(std::vector<Trial> batch);
  Result<void> trySpilled();
  Result<void> tryOne(Trial trial, Result<runtime::CompiledKernel> binary);
  std::optional<Failure> refuse(const Trial &trial);
  MaybeFailure attempt(Trial &trial);
  MaybeFailure survive(Trial &trial, MaybeFailure (Search::*step)(Trial &));
  MaybeFailure checkAndMeasure(Trial &trial);
  MaybeFailure loadAndCheck(Trial &trial);
  bool isDown(const Failure &failure);
  Result<void> restart(const Trial &trial, const Failure &failure);
  MaybeFailure measure(Trial &trial, int samples, double maxSeconds, std::vector<double> &times);

  Result<void> pickFinalists();
  Result<bool> makeReady(Trial &trial);
  Result<void> compareFinalists();
  TunedKernel keep(Trial winner);

  bool recall(Trial &trial);
  void accept(Trial trial);
  void reject(Trial trial, const Failure &failure);
  double secondsLeft() const { return budget.seconds - std::chrono::duration<double>(Clock::now() - start).count(); }
  bool isOutOfTime() const { return secondsLeft() < finalShare * budget.seconds + lastTrialSeconds; }
  bool isAtRoof() const { return shop.peaks.measured && bound.boundUs >= goodEnough * accepted.front().medianUs(); }
  void showProgress() const;
  Error nothingWorks() const;

  const Workshop &shop;
  const TuningTask &task;
  bool trustFailures;
  int trustedFailures = 0;
  std::string compilerVersion;
  Budget budget;
  Roofline bound;
  std::string region;
  CandidateQueue queue;
  Progress progress;
  Clock::time_point start = Clock::now(); ///< Later by what was spent waiting for other processes.
  double lastTrialSeconds = 0;
  std::optional<Bench> bench;
  int life = 0;                ///< Times the device was restarted ...
  bool isFresh = false;        ///< ... and nothing has run since.
  std::vector<Trial> accepted; ///< Right and timed, fastest first.
  std::vector<Trial> spilled;  ///< For when nothing else works.
  bool maySpill = false;
  int failed = 0;
  int cut = 0;
  std::string firstFailure;
};

/// Batch after batch of the best-ranked candidates until one works: a budget removes candidates, never
/// kernels.
Result<TunedKernel> Search::run() {
  while (accepted.empty() && queue.remaining() > 0)
    if (Result<void> tried = tryBatch(nextBatch()); !tried)
      return tried.error();
  if (accepted.empty())
    if (Result<void> tried = trySpilled(); !tried)
      return tried.error();
  DeviceLock quiet = shop.forMeasuring();
  start += quiet.waited();
  if (Result<void> picked = pickFinalists(); !picked)
    return picked.error();
  if (accepted.empty())
    return nothingWorks();
  if (Result<void> compared = compareFinalists(); !compared)
    return compared.error();
  auto tied = std::find_if(accepted.begin(), accepted.end(), [&](const Trial &trial) {
    return !isTie(*accepted.front().measurement.timing, *trial.measurement.timing);
  });
  return keep(std::move(*std::min_element(accepted.begin(), tied,
                                          [](const Trial &a, const Trial &b) { return tieRank(a) < tieRank(b); })));
}

std::vector<Trial> Search::nextBatch() {
  std::vector<Trial> batch;
  while (batch.size() < static_cast<std::size_t>(budget.candidates)) {
    std::optional<Candidate> candidate = queue.next();
    if (!candidate)
      break;
    Trial trial;
    trial.measurement.kernel = candidate->key;
    trial.measurement.region = region;
    trial.measurement.config = candidate->config;
    trial.measurement.driver = shop.driver();
    trial.measurement.estimateUs = candidate->estimateUs;
    trial.candidate = std::move(*candidate);
    batch.push_back(std::move(trial));
  }
  return batch;
}

/// Compilation runs ahead of the device. On the CPU it would disturb the timings, so it ends first.
Result<void> Search::tryBatch(std::vector<Trial> batch) {
  progress.planned += static_cast<int>(batch.size());
  std::vector<const codegen::KernelPlan *> unknown;
  unknown.reserve(batch.size());
  for (Trial &trial : batch)
    unknown.push_back(recall(trial) ? nullptr : &trial.candidate.plan);
  CompileAhead compiled(shop.compiler, unknown, shop.options.compileThreads);
  if (shop.target.isCpu()) {
    DeviceLock busy = shop.forCompiling();
    start += busy.waited();
    compiled.waitForAll();
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (shop.isCancelled())
      return Error{ErrorCode::Cancelled, fmt::format("tuning was cancelled at kernel {}", task.name)};
    if (!accepted.empty() && isAtRoof())
      break;
    if (!accepted.empty() && isOutOfTime()) {
      cut += static_cast<int>(std::count_if(unknown.begin() + static_cast<std::ptrdiff_t>(i), unknown.end(),
                                            [](const codegen::KernelPlan *plan) { return plan != nullptr; }));
      break;
    }
    ++progress.tried;
    if (!unknown[i])
      continue;
    Result<runtime::CompiledKernel> binary = compiled.take(i); // Reads the plan, which moves only then.
    // The first one that works pays for inputs and the oracle, too, and says nothing about the next.
    const bool isSetUp = !accepted.empty();
    Clock::time_point began = Clock::now();
    if (Result<void> tried = tryOne(std::move(batch[i]), std::move(binary)); !tried)
      return tried;
    if (isSetUp)
      lastTrialSeconds = std::chrono::duration<double>(Clock::now() - began).count();
    showProgress();
  }
  return {};
}

/// The best-ranked candidate that works although its registers spill.
Result<void> Search::trySpilled() {
  maySpill = true;
  for (Trial &trial : std::exchange(spilled, {})) {
    --failed;
    Result<runtime::CompiledKernel> binary = shop.compiler.compile(trial.candidate.plan);
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
  MaybeFailure failure = attempt(trial);
  if (!failure)
    return failure.error();
  if (*failure) {
    reject(std::move(trial), **failure);
    return {};
  }
  shop.store.put(trial.measurement);
  accept(std::move(trial));
  return {};
}

/// Why a compiled candidate is not run at all, or nothing.
std::optional<Failure> Search::refuse(const Trial &trial) {
  const runtime::ResourceFacts &facts = trial.binary.facts;
  if (std::optional<std::string> misfit = whyNotFit(trial.candidate.plan, facts, shop.target))
    return Failure{FailureKind::Launch, *misfit};
  if (facts.spillBytes > 0 && !maySpill)
    return Failure{FailureKind::Spill, fmt::format("spills {} bytes of registers", facts.spillBytes)};
  return std::nullopt;
}

MaybeFailure Search::attempt(Trial &trial) {
  if (std::optional<Failure> refusal = refuse(trial))
    return refusal;
  DeviceLock quiet = shop.forMeasuring(); // First: a trial that waits has not begun.
  start += quiet.waited();
  if (!shop.store.beginTrial(trial.measurement))
    return std::optional(Failure{FailureKind::Crash, "the machine went down twice while it ran"});
  return survive(trial, &Search::checkAndMeasure);
}

/// Does the step; a device that goes down comes up again. One that crashed may have been damaged by
/// another candidate before: alone on a fresh device, each answers for itself.
MaybeFailure Search::survive(Trial &trial, MaybeFailure (Search::*step)(Trial &)) {
  while (true) {
    const bool wasFresh = std::exchange(isFresh, false);
    MaybeFailure failure = (this->*step)(trial);
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

MaybeFailure Search::checkAndMeasure(Trial &trial) {
  if (MaybeFailure failure = loadAndCheck(trial); !failure || *failure)
    return failure;
  double checkSeconds = bench->lastRunSeconds();
  if (checkSeconds > slowShare * budget.seconds) { // Too slow to run again: the check's run is its one sample.
    trial.measurement.timing = Timing{checkSeconds * 1e6, 0, 1};
    return std::optional<Failure>();
  }
  std::vector<double> times;
  if (MaybeFailure failure = measure(trial, firstSamples, budget.seconds / 8, times); !failure || *failure)
    return failure;
  trial.measurement.timing = summarise(std::move(times));
  return std::optional<Failure>();
}

MaybeFailure Search::loadAndCheck(Trial &trial) {
  Span span("check", task.name + " " + trial.candidate.config.str());
  const double allowed = accepted.empty()
                             ? std::max(patience, patienceFactor * trial.candidate.estimateUs * 1e-6)
                             : std::max(timeoutSeconds, timeoutFactor * accepted.front().medianUs() * 1e-6);
  shop.device->limitRuns(allowed);
  if (!bench) {
    Result<Bench> made = Bench::make(*shop.device, task, trial.candidate.plan);
    if (!made)
      return made.error();
    bench.emplace(std::move(*made));
  }
  Result<std::unique_ptr<runtime::LoadedKernel>> loaded = shop.device->load(trial.candidate.plan, trial.binary);
  if (!loaded)
    return blame(loaded.error());
  trial.loaded = std::move(*loaded);
  trial.life = life;
  MaybeFailure failure = bench->check(*trial.loaded, trial.candidate.plan);
  if (!failure)
    return blame(failure.error());
  if (*failure)
    return failure;
  if (double seconds = bench->lastRunSeconds(); !accepted.empty() && seconds > allowed)
    return std::optional(Failure{FailureKind::Timeout, fmt::format("one run took {:.2g} s, the fastest so far {:.2g} s",
                                                                   seconds, accepted.front().medianUs() * 1e-6)});
  return std::optional<Failure>();
}

/// Whether the failure left a device that no other candidate should be judged on.
bool Search::isDown(const Failure &failure) { return failure.kind == FailureKind::Overrun || !bench->deviceAnswers(); }

/// A fresh device, where it can be had; memory written anew, where the device is the same but alive.
Result<void> Search::restart(const Trial &trial, const Failure &failure) {
  Result<void> restarted = shop.device->restart();
  if (restarted) {
    isFresh = true;
    ++life;
  }
  if (restarted || bench->deviceAnswers())
    return bench->rebuild();
  Measurement lost = trial.measurement;
  lost.failure = failure;
  shop.store.put(lost);
  return Error{ErrorCode::NoDevice,
               fmt::format("the device was lost with {} of {}: {} ({}); what was measured is kept: run again to go on",
                           trial.candidate.config.str(), task.name, failure.message, restarted.error().message)};
}

MaybeFailure Search::measure(Trial &trial, int samples, double maxSeconds, std::vector<double> &times) {
  Span span("measure", task.name + " " + trial.candidate.config.str());
  runtime::MeasureOptions options;
  options.repetitions = samples;
  options.maxSeconds = maxSeconds;
  if (trial.measurement.timing ? trial.medianUs() > 5e4 : bench->lastRunSeconds() > 0.05)
    options.warmupMs = 0; // The check or the former visit was warm-up enough.
  Result<std::vector<double>> measured = bench->measure(*trial.loaded, trial.candidate.plan, options);
  if (!measured)
    return blame(measured.error());
  times.insert(times.end(), measured->begin(), measured->end());
  return std::optional<Failure>();
}

/// Keeps the fastest few and makes those known only from the store ready to run.
Result<void> Search::pickFinalists() {
  std::vector<Trial> candidates = std::exchange(accepted, {});
  for (Trial &trial : candidates) {
    if (accepted.size() == maxFinalists ||
        (!accepted.empty() && trial.medianUs() > finalistMargin * accepted.front().medianUs()))
      break;
    Result<bool> ready = makeReady(trial);
    if (!ready)
      return ready.error();
    if (*ready)
      accepted.push_back(std::move(trial));
  }
  return {};
}

/// Loads what is known only from the store or from before a restart; false when it fails now.
Result<bool> Search::makeReady(Trial &trial) {
  if (trial.loaded && trial.life == life)
    return true;
  if (trial.binary.image.empty()) {
    Result<runtime::CompiledKernel> binary = shop.compiler.compile(trial.candidate.plan);
    if (!binary)
      return binary.error();
    trial.binary = std::move(*binary);
  }
  MaybeFailure failure = survive(trial, &Search::loadAndCheck);
  if (!failure)
    return failure.error();
  if (*failure)
    reject(std::move(trial), **failure);
  return !*failure;
}

/// Two interleaved visits to each, in the order A B B A: the second arm of a pair reads slow.
Result<void> Search::compareFinalists() {
  double oneRound = 0;
  for (const Trial &trial : accepted)
    oneRound += trial.medianUs() * 1e-6;
  if (2 * oneRound > secondsLeft())
    return {};
  double visitSeconds = secondsLeft() / static_cast<double>(2 * accepted.size());
  std::vector<std::vector<double>> times(accepted.size());
  for (std::size_t visit = 0; visit < 2 * accepted.size(); ++visit) {
    std::size_t i = visit < accepted.size() ? visit : 2 * accepted.size() - 1 - visit;
    MaybeFailure failure = measure(accepted[i], finalSamples / 2, visitSeconds, times[i]);
    if (!failure)
      return failure.error();
    if (*failure)
      return Error{ErrorCode::NoDevice, fmt::format("kernel {} with {} passed its check, then failed: {}", task.name,
                                                    accepted[i].candidate.config.str(), (*failure)->message)};
  }
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    accepted[i].measurement.timing = summarise(std::move(times[i]));
    shop.store.put(accepted[i].measurement);
  }
  std::sort(accepted.begin(), accepted.end(), isFaster);
  return {};
}

TunedKernel Search::keep(Trial winner) {
  Choice choice;
  choice.region = region;
  choice.kernel = winner.candidate.key;
  choice.name = task.name;
  choice.ops = task.ops;
  choice.target = shop.target.name;
  choice.sku = shop.sku();
  choice.compiler = compilerVersion;
  choice.driver = shop.driver();
  choice.config = winner.candidate.config;
  choice.effort = shop.options.effort;
  choice.timing = winner.measurement.timing;
  choice.candidates = progress.tried;
  choice.failed = failed;
  choice.cut = cut;
  shop.store.put(choice, winner.binary);
  return {std::move(winner.candidate.plan), std::move(winner.binary), reportOf(task, choice, bound, false)};
}

/// Takes over what the store knows of the candidate under this driver; false when it must be tried.
bool Search::recall(Trial &trial) {
  std::optional<Measurement> known = shop.store.findMeasurement(trial.candidate.key);
  if (!known || known->driver != shop.driver())
    return false;
  if (known->timing) {
    trial.measurement.timing = known->timing;
    accept(std::move(trial));
    return true;
  }
  bool mayWorkNow = known->failure->kind != FailureKind::Crash;
  if (mayWorkNow && !trustFailures)
    return false;
  trustedFailures += mayWorkNow ? 1 : 0;
  ++failed;
  if (firstFailure.empty())
    firstFailure = fmt::format("{}: {}", trial.candidate.config.str(), known->failure->message);
  if (known->failure->kind == FailureKind::Spill)
    spilled.push_back(std::move(trial));
  return true;
}

void Search::accept(Trial trial) {
  auto place = std::upper_bound(accepted.begin(), accepted.end(), trial, isFaster);
  progress.bestUs = std::min(trial.medianUs(), accepted.empty() ? trial.medianUs() : progress.bestUs);
  accepted.insert(place, std::move(trial));
}

/// A failure is a row in the store.
void Search::reject(Trial trial, const Failure &failure) {
  ++failed;
  std::string line = fmt::format("{} with {}: {}: {}", task.name, trial.candidate.config.str(), toString(failure.kind),
                                 failure.message);
  shop.log(line);
  if (firstFailure.empty())
    firstFailure = line;
  trial.measurement.timing.reset();
  trial.measurement.failure = failure;
  shop.store.put(trial.measurement);
  if (failure.kind == FailureKind::Spill)
    spilled.push_back(std::move(trial));
}

void Search::showProgress() const {
  if (shop.options.progress)
    shop.options.progress(progress);
}

Error Search::nothingWorks() const {
  std::string reason = firstFailure.empty() ? queue.lastRefusal() : firstFailure;
  return {ErrorCode::Compile, fmt::format("none of {} candidates works for kernel {} ({}): {}", task.candidates.size(),
                                          task.name, task.ops, reason.empty() ? "there are none" : reason)};
}

} // namespace

Result<TunedKernel> search(const Workshop &workshop, const TuningTask &task,
                           const std::optional<codegen::TileConfig> &seed, const Progress &progress) {
  Search first(workshop, task, seed, progress, true);
  Result<TunedKernel> kernel = first.run();
  if (kernel || kernel.error().code != ErrorCode::Compile || !first.mayRetry())
    return kernel;
  return Search(workshop, task, seed, progress, false).run();
}

} // namespace kfuse::tuner
