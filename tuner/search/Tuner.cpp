#include "tuner/search/Tuner.h"

#include "tuner/record/Key.h"
#include "tuner/record/Trace.h"
#include "tuner/record/UnixTime.h"
#include "tuner/search/Candidates.h"
#include "tuner/search/CompileAhead.h"
#include "tuner/search/Search.h"
#include "tuner/search/TimeShares.h"
#include "tuner/search/Untimed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr std::chrono::milliseconds pollPause(50); // Between looks at what other processes have finished.
constexpr double endToEndShare = 0.2;              // At most this share of the time for a model.
/// Candidates that are compiled ahead: kernels of later programs take 0.2 s each, and an attention compiles for 3 s.
constexpr int candidatesAhead = 256;
/// Kernels at most whose candidates are ranked, for 10 ms each, while the device waits for one of them.
constexpr int kernelsAtOnce = 4;

std::string regionOf(const TuningContext &context, const TuningTask &task) {
  return regionKey(task.signature, task.templateName, context.target.name, context.sku(), context.compiler.version());
}

/// What the store has for a task: the kernel, or why not.
struct Lookup {
  std::optional<TunedKernel> kernel;
  std::string miss;
};

/// What the store has cannot be used, though nothing is the matter with it.
constexpr const char *isDistrusted = "its machine code is not trusted";

/// Machine code for a choice that came without it, from another machine of its kind, or with what is not trusted.
std::optional<runtime::CompiledKernel> recompile(const TuningContext &context, const Choice &choice,
                                                 const codegen::KernelPlan &plan) {
  Result<runtime::CompiledKernel> binary = context.compiler.compile(plan);
  if (!binary)
    return std::nullopt;
  if (!context.store.distrust()) // Or each start would write it again.
    context.store.put(choice, *binary);
  return std::move(*binary);
}

bool isOneOf(const std::vector<codegen::EstimatedConfig> &candidates, const codegen::TileConfig &config) {
  return std::any_of(candidates.begin(), candidates.end(),
                     [&](const codegen::EstimatedConfig &candidate) { return candidate.config == config; });
}

/// What won for the same ops in the shape nearest to this one, if it is legal here: a first guess. Near is what took
/// about the time that it is estimated to take here, within 4 times.
std::optional<codegen::TileConfig> neighbourOf(const TuningContext &context, const TuningTask &task) {
  const std::vector<Choice> choices = context.store.findChoices(task.ops, context.sku());
  if (choices.empty())
    return std::nullopt;
  const std::vector<codegen::EstimatedConfig> candidates = task.space->candidates();
  double nearest = std::log(4.0);
  std::optional<codegen::TileConfig> config;
  for (const Choice &choice : choices) {
    const auto here = std::ranges::find(candidates, choice.config, &codegen::EstimatedConfig::config);
    if (!choice.timing || here == candidates.end())
      continue;
    if (const double distance = std::abs(std::log(choice.timing->medianUs / here->us)); distance < nearest) {
      nearest = distance;
      config = choice.config;
    }
  }
  return config;
}

/// Why there is no choice of this kind.
std::string whyNoChoice(const TuningContext &context, const TuningTask &task) {
  if (context.measures() && context.store.findChoice(untimedRegion(context, task)))
    return "only the cost model has chosen a config, none was measured on this device with this compiler";
  return "it was never tuned on this device with this compiler";
}

/// A ladder of reasons to miss; what passes them all is trusted.
Lookup lookUp(const TuningContext &context, const TuningTask &task, const std::optional<Choice> &choice) {
  if (!choice)
    return {{}, whyNoChoice(context, task)};
  if (choice->timing && choice->driver != context.driver())
    return {{}, fmt::format("it was tuned under driver {}, here is {}", choice->driver, context.driver())};
  if (choice->effort < context.options.effort)
    return {{}, "it was tuned with less effort"};
  std::optional<runtime::CompiledKernel> binary = context.store.findBinary(choice->kernel);
  // Whoever compiled the binary had the config from the template. Its list takes a millisecond, too long for all.
  if (!binary && !isOneOf(task.space->candidates(), choice->config))
    return {{}, "this version has no such config"};
  Result<codegen::KernelPlan> plan = emitStored(task, choice->config);
  if (!plan || tuningKey(*plan, context.compiler.version(), context.sku()) != choice->kernel)
    return {{}, "the template's source has changed"};
  KernelReport report = reportOf(task, *choice, roofline(task.work, context.currentPeaks()), true);
  if (!binary && !context.options.requireTuned) {
    binary = recompile(context, *choice, *plan);
    report.recompiled = true;
  }
  if (!binary)
    return {{}, context.store.distrust() ? isDistrusted : "its binary is not there"};
  return {TunedKernel{std::move(*plan), std::move(*binary), std::move(report)}, {}};
}

/// The kernel that this context would choose. What was measured and what the cost model chose alone lie side by side;
/// who may compile nothing takes the one for want of the other.
Lookup lookUp(const TuningContext &context, const TuningTask &task) {
  if (context.measures())
    return lookUp(context, task, context.store.findChoice(regionOf(context, task)));
  Lookup untimed = lookUp(context, task, context.store.findChoice(untimedRegion(context, task)));
  if (untimed.kernel || !context.options.requireTuned)
    return untimed;
  const std::optional<Choice> measured = context.store.findChoice(regionOf(context, task));
  return measured ? lookUp(context, task, measured) : std::move(untimed);
}

/// What a search begins with: a config that won here under other conditions, or where it is near.
std::optional<codegen::TileConfig> firstGuess(const TuningContext &context, const TuningTask &task) {
  if (std::optional<Choice> choice = context.store.findChoice(regionOf(context, task));
      choice && isOneOf(task.space->candidates(), choice->config))
    return choice->config;
  return neighbourOf(context, task);
}

using Keys = std::set<std::string>; ///< The keys of plans that were wanted.

/// What a task has had compiled ahead.
struct Announced {
  Keys wanted;
  int candidates = 0;
  std::optional<codegen::TileConfig> seed;
  std::optional<std::size_t> winners; ///< How many kernels of its ops had winners when that was looked for.
};

/// Compiles ahead what a search of the task with this seed will ask for first, and no more what one with another was
/// to.
void compileFirstBatch(const TuningContext &context, CompileAhead &compiled, const TuningTask &task, int candidates,
                       const std::optional<codegen::TileConfig> &seed, Keys &wanted) {
  CandidateQueue queue(task, context.target, context.peaks, context.compiler.version(), context.sku(), seed);
  Keys now;
  for (int i = 0; i < candidates; ++i)
    if (std::optional<Candidate> candidate = queue.next(); !candidate)
      break;
    else if (!context.store.findMeasurement(candidate->key)) {
      if (i == 0 && seed)
        compiled.wantFirst(candidate->key, candidate->plan);
      else
        compiled.want(candidate->key, candidate->plan);
      now.insert(candidate->key);
    }
  for (const std::string &key : wanted)
    if (!now.contains(key))
      compiled.drop(key);
  wanted = std::move(now);
}

/// The kernels of one call of tune(), as they come.
class Tuning {
public:
  Tuning(const TuningContext &context, std::span<const TuningTask> tasks)
      : context(context), tasks(tasks), kernels(tasks.size()) {}

  /// What the store has; the rest is missing.
  void takeStored();
  bool isComplete() const { return missing.empty(); }
  std::size_t missingCount() const { return missing.size(); }
  /// NotTuned with every kernel that is missing.
  Error listMissing() const;
  Result<void> compileMissing();
  /// `processes` do so, each with its part of the cores.
  Result<void> searchMissing(unsigned processes);
  std::vector<TunedKernel> take();

private:
  struct Missing {
    std::size_t index;
    std::string reason;
  };
  bool isAnyFree() const;
  void startDevice() const;
  Result<bool> trySearch(std::size_t index);
  bool isOfOtherProgram(std::size_t index) const;
  bool mayYetBeGuessed(std::size_t index) const;
  Budget budgetFor(std::size_t index, bool hasGuess) const;
  void compileAheadOf(std::size_t position);

  const TuningContext &context;
  std::span<const TuningTask> tasks;
  const double begun = unixSeconds();
  std::vector<std::optional<TunedKernel>> kernels;
  std::vector<Missing> missing;
  std::optional<TimeShares> shares;           ///< Set during the search.
  std::optional<CompileAhead> compiled;       ///< Set during the search.
  std::map<std::size_t, Announced> announced; ///< What each task has announced to `compiled`.
  std::map<std::string, std::size_t> winners; ///< How many kernels of the same ops have been searched.
};

void Tuning::takeStored() {
  if (const std::optional<std::string> &why = context.store.distrust(); why && !context.options.requireTuned)
    context.warn(*why + "; kernels are compiled anew");
  for (std::size_t i = 0; i < tasks.size() && !context.isCancelled(); ++i) {
    Lookup found = lookUp(context, tasks[i]);
    kernels[i] = std::move(found.kernel);
    if (kernels[i])
      continue;
    if (!context.options.requireTuned)
      context.log(fmt::format("{} is not taken from the store: {}", tasks[i].name, found.miss));
    missing.push_back({i, std::move(found.miss)});
  }
}

Error Tuning::listMissing() const {
  if (std::ranges::any_of(missing, [](const Missing &kernel) { return kernel.reason == isDistrusted; }))
    return {ErrorCode::NotTuned, *context.store.distrust()};
  std::string list;
  for (const Missing &kernel : missing)
    list += fmt::format("{}{} ({}): {}", list.empty() ? "" : "; ", tasks[kernel.index].name, tasks[kernel.index].ops,
                        kernel.reason);
  const std::optional<Error> problem = context.store.problem();
  return {ErrorCode::NotTuned,
          fmt::format("{} of {} kernels are not in the store{}; tune them first: {}", missing.size(), tasks.size(),
                      problem ? " (" + problem->message + ")" : "", list)};
}

Result<void> Tuning::compileMissing() {
  std::vector<const TuningTask *> untimed;
  for (const Missing &kernel : missing)
    untimed.push_back(&tasks[kernel.index]);
  Result<std::vector<TunedKernel>> ranked = compileBestRanked(context, untimed, begun);
  if (!ranked)
    return ranked.error();
  for (std::size_t i = 0; i < missing.size(); ++i)
    kernels[missing[i].index] = std::move((*ranked)[i]);
  missing.clear();
  return {};
}

/// Whether other processes have left something to search.
bool Tuning::isAnyFree() const {
  return std::any_of(missing.begin(), missing.end(), [this](const Missing &kernel) {
    return context.store.lease(regionOf(context, tasks[kernel.index])).has_value();
  });
}

/// While nobody measures on it. What fails here fails again where it is told, be it by an exception.
void Tuning::startDevice() const {
  try {
    DeviceLock quiet = context.forMeasuring();
    std::ignore = context.device->synchronize(nullptr);
  } catch (...) {
    return;
  }
}

/// Round after round over what is missing: other processes have taken some, and finish them meanwhile.
Result<void> Tuning::searchMissing(unsigned processes) {
  // A GPU's worker takes 0.2 to 0.4 s to start: beside the ranking and the first compilations.
  std::jthread starter;
  if (!context.target.isCpu() && isAnyFree())
    starter = std::jthread([this] { startDevice(); });
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  compiled.emplace(context.compiler,
                   context.options.compileThreads > 0 ? context.options.compileThreads
                                                      : std::max(1U, cores / processes),
                   context.options.stop);
  const Budget budget = budgetOf(context);
  const double keptSeconds = tasks.size() > 1 ? budget.endToEndSeconds : 0;
  shares.emplace(context.options.seconds > 0 ? context.options.seconds - keptSeconds
                                             : budget.seconds * static_cast<double>(missing.size()));
  for (const Missing &kernel : missing)
    shares->add(tasks[kernel.index]);
  while (!missing.empty()) {
    bool gotOn = false;
    for (auto next = missing.begin(); next != missing.end();) {
      compileAheadOf(static_cast<std::size_t>(next - missing.begin()));
      Result<bool> done = trySearch(next->index);
      if (!done)
        return done.error();
      gotOn |= *done;
      next = *done ? missing.erase(next) : next + 1;
    }
    if (gotOn)
      continue;
    if (context.isCancelled())
      return Error{ErrorCode::Cancelled,
                   fmt::format("tuning was cancelled at kernel {}", tasks[missing.front().index].name)};
    std::this_thread::sleep_for(pollPause);
  }
  return {};
}

/// Whether a program before has a kernel of the same ops: its winner is a guess that few others beat.
bool Tuning::isOfOtherProgram(std::size_t index) const {
  const TuningTask &task = tasks[index];
  return std::ranges::any_of(tasks.first(index), [&](const TuningTask &other) {
    return other.program < task.program && other.ops == task.ops && other.templateName == task.templateName;
  });
}

/// Whether a kernel of the same ops is searched before: its winner may be a guess that nobody has yet.
bool Tuning::mayYetBeGuessed(std::size_t index) const {
  return std::ranges::any_of(missing, [&](const Missing &kernel) {
    return kernel.index < index && tasks[kernel.index].ops == tasks[index].ops;
  });
}

/// Has the next kernels compiled while the device measures this one. On the CPU that would disturb it. Their first
/// guesses, and so which candidates they have and how many, are others once a kernel of the same ops has a winner;
/// waiting for one took 0.2 to 0.5 s.
void Tuning::compileAheadOf(std::size_t position) {
  if (context.target.isCpu())
    return;
  int candidates = 0, ranked = 0;
  bool isRenewed = false; // The next kernel of the last winner's ops is; ranking all of them takes longer than it wins.
  for (std::size_t i = position; i < missing.size() && candidates < candidatesAhead; ++i) {
    const std::size_t index = missing[i].index;
    const TuningTask &task = tasks[index];
    const auto [made, isNew] = announced.try_emplace(index);
    Announced &ahead = made->second;
    const std::size_t known = winners[task.ops];
    if (ahead.winners != known && (isNew || !isRenewed)) {
      ahead.winners = known;
      std::optional<codegen::TileConfig> seed = firstGuess(context, task);
      const int asked = budgetFor(index, seed.has_value() || mayYetBeGuessed(index)).candidates;
      if (isNew || seed != ahead.seed || asked != ahead.candidates) {
        isRenewed |= !isNew;
        ahead.candidates = asked;
        compileFirstBatch(context, *compiled, task, ahead.candidates, seed, ahead.wanted);
        ahead.seed = std::move(seed);
        if (isNew && ++ranked == kernelsAtOnce)
          break;
      }
    }
    candidates += ahead.candidates;
  }
}

/// What a search may spend that begins with a guess, or with none.
Budget Tuning::budgetFor(std::size_t index, bool hasGuess) const {
  return hasGuess && isOfOtherProgram(index) ? budgetBesideWinner(context) : budgetOf(context);
}

/// False while another process is at it.
Result<bool> Tuning::trySearch(std::size_t index) {
  const TuningTask &task = tasks[index];
  std::optional<Store::Lease> lease = context.store.lease(regionOf(context, task));
  if (!lease)
    return false;
  const double share = shares->take(task);
  Lookup found = lookUp(context, task); // Another may have finished it since.
  if (!found.kernel) {
    if (context.target.isCpu()) { // A GPU's start goes on beside the first compilations.
      DeviceLock busy = context.forCompiling();
      // A worker that ended since it was last used shows again, and is replaced, when the bench is made.
      std::ignore = context.device->prepareMeasuring();
    }
    Span span("search", task.name);
    Progress progress{
        .kernel = task.name, .kernelsDone = static_cast<int>(index), .kernels = static_cast<int>(tasks.size())};
    const std::optional<codegen::TileConfig> seed = firstGuess(context, task);
    Budget budget = budgetFor(index, seed.has_value());
    // Time spent waiting for other processes is gone from the shares; only a limit that was asked for is kept all the
    // same.
    budget.seconds = context.options.seconds > 0 ? share : std::max(share, budget.seconds / 2);
    Result<TunedKernel> winner = search(context, *compiled, task, budget, seed, progress);
    if (!winner)
      return winner.error();
    found.kernel = std::move(*winner);
  }
  for (const std::string &key : announced[index].wanted)
    compiled->drop(key); // What the search did not ask for: nobody will.
  found.kernel->isNew = true;
  ++winners[task.ops];
  kernels[index] = std::move(found.kernel);
  return true;
}

std::vector<TunedKernel> Tuning::take() {
  std::vector<TunedKernel> all;
  all.reserve(kernels.size());
  for (std::optional<TunedKernel> &kernel : kernels)
    all.push_back(std::move(*kernel));
  return all;
}

} // namespace

Budget budgetOf(const TuningContext &context) {
  const bool isFull = context.options.effort == Effort::Full, isCpu = context.target.isCpu();
  Budget budget;
  budget.candidates = budget.replacements = isFull ? 40 : 8;
  // The first look at a kernel bound by compute is off by 2 to 3 %, as the card warms up: of 40 configs of 4096 cubed
  // on an H200 the best one came to finals of eight in one of three searches.
  budget.finalists = isFull && !isCpu ? 16 : 8;
  // Candidates are cut late, for those that compile, check or run slowly: what a limit cuts off is another config in
  // another run. Finals that go on decide less with each turn.
  budget.seconds = isFull ? (isCpu ? 20 : 5) : (isCpu ? 2 : 4);
  budget.wantedSeconds = isFull || isCpu ? INFINITY : 1;
  // Times on a CPU stay too far apart for more turns to decide much.
  budget.rounds = (isCpu ? 2 : 4) + (isFull ? 1 : 0);
  // From run to run tiles shift by 0.7 % at a card's power limit, other kernels by 0.1 to 0.2 %. Among ties of 1
  // to 3 %, 2 % lets two quick runs agree best; wider ones leave more than 2 % between two choices.
  // Full effort looks for the fastest one: as close as its 64 turns tell.
  budget.tie = isFull ? (isCpu ? 0.01 : 0.003) : 0.02;
  // The CPU runs once and writes over its cache; a GPU replays one run, and some more than that.
  budget.runsPerSample = isCpu ? 2 : 5;
  if (!isCpu)
    budget.singleRunUs = 2000; // runtime::cuda::CudaTimer records none that are longer.
  budget.firstLookShare = isCpu ? 1 / 8.0 : 1 / 64.0;
  if (isFull && !isCpu)
    budget.ownClockUs = 1e4;
  if (!isCpu)
    budget.movedUs = 100;
  // Quick effort chose no better by whole runs than by kernels alone (docs/experiments.md).
  if (context.options.endToEnd && isFull)
    budget.endToEndSeconds = 15;
  if (context.options.seconds > 0)
    budget.endToEndSeconds = std::min(budget.endToEndSeconds, endToEndShare * context.options.seconds);
  if (context.options.secondsPerKernel > 0)
    budget.seconds = budget.wantedSeconds = context.options.secondsPerKernel;
  return budget;
}

Budget budgetBesideWinner(const TuningContext &context) {
  Budget budget = budgetOf(context);
  if (context.options.effort == Effort::Full)
    return budget;
  // 16 programs of a block have some 180 kernels: a second for each is three minutes.
  budget.candidates = 4;
  // Each is compiled while nothing else is: for attention's 27 of the 82 s of a block's tuning went.
  budget.replacements = 0;
  budget.finalists = 4;
  budget.rounds = 0;
  if (!context.target.isCpu()) {
    budget.wantedSeconds /= 4;
    budget.firstLookShare *= 4; // The same time.
  }
  return budget;
}

KernelReport reportOf(const TuningTask &task, const Choice &choice, const Roofline &bound, bool fromCache) {
  KernelReport report;
  report.name = task.name;
  report.ops = task.ops;
  report.templateName = task.templateName;
  report.config = choice.config.str();
  report.region = choice.region;
  report.work = task.work;
  report.bound = bound;
  if (choice.timing)
    report.measuredUs = choice.timing->medianUs;
  report.candidates = choice.candidates;
  report.failed = choice.failed;
  report.cut = choice.cut;
  report.ruledOut = choice.ruledOut;
  report.stop = choice.stop;
  report.advice = whatWouldHelp(task.work, bound.regime);
  report.uses = task.uses;
  report.fromCache = fromCache;
  return report;
}

Result<std::vector<TunedKernel>> tune(const TuningContext &context, std::span<const TuningTask> tasks) {
  Tuning tuning(context, tasks);
  tuning.takeStored();
  if (context.isCancelled())
    return Error{ErrorCode::Cancelled, "tuning was cancelled before its first kernel"};
  if (!tuning.isComplete() && context.options.requireTuned)
    return tuning.listMissing();
  if (tuning.isComplete())
    return tuning.take();
  const unsigned processes =
      context.measures() && context.options.onMiss ? context.options.onMiss(tuning.missingCount()) : 1;
  if (Result<void> done = context.measures() ? tuning.searchMissing(processes) : tuning.compileMissing(); !done)
    return done.error();
  context.store.confirmPlace();
  return tuning.take();
}

} // namespace kfuse::tuner
