#include "tuner/search/EndToEnd.h"

#include "tuner/record/Key.h"
#include "tuner/record/Trace.h"
#include "tuner/search/CompileAhead.h"
#include "tuner/search/InterleavedRuns.h"
#include "tuner/search/RunnersUp.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr double leastShare =
    0.02; ///< A kernel with a smaller share of the run is not worth a contest: 5 % of it is a thousandth.
constexpr double compileShare = 0.5; ///< At most this share of the time goes into compiling.

using Clock = InterleavedRuns::Clock;

/// What a run spends in the kernel, by the kernel's own time.
double runUs(const TunedKernel &kernel) { return kernel.report.measuredUs.value_or(0) * kernel.report.uses; }

double runUs(std::span<const TunedKernel> kernels) {
  return std::accumulate(kernels.begin(), kernels.end(), 0.0,
                         [](double us, const TunedKernel &kernel) { return us + runUs(kernel); });
}

/// Whether compute binds most of the run.
bool isBoundByCompute(std::span<const TunedKernel> kernels) {
  double computeUs = 0;
  for (const TunedKernel &kernel : kernels)
    computeUs += kernel.report.bound.regime == Regime::Compute ? runUs(kernel) : 0;
  return computeUs > runUs(kernels) / 2;
}

/// A kernel that others came near to.
struct Contest {
  std::size_t index; ///< The kernel's.
  double us;         ///< The time of a run.
  std::vector<RunnerUp> runnersUp;
};

/// The kernels with the largest share of the run first.
std::vector<Contest> findContests(const TuningContext &context, std::span<const TuningTask> tasks,
                                  std::span<const TunedKernel> kernels) {
  int launches = 0;
  for (const TunedKernel &kernel : kernels)
    launches += kernel.report.uses;
  if (launches < 2)
    return {};
  const double allUs = runUs(kernels);
  std::vector<Contest> contests;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (const double us = runUs(kernels[i]); kernels[i].isNew && us >= leastShare * allUs)
      if (std::vector<RunnerUp> runnersUp = runnersUpOf(context, tasks[i], kernels[i]); !runnersUp.empty())
        contests.push_back({i, us, std::move(runnersUp)});
  std::ranges::sort(contests, {}, [](const Contest &contest) { return std::pair(-contest.us, contest.index); });
  return contests;
}

/// The kernel with the runner-up's config.
TunedKernel replacementOf(const TunedKernel &kernel, const RunnerUp &runnerUp, runtime::CompiledKernel binary) {
  TunedKernel other = kernel;
  other.plan = runnerUp.plan;
  other.binary = std::move(binary);
  other.report.config = runnerUp.measurement.config.str();
  other.report.measuredUs = runnerUp.measurement.timing->medianUs;
  return other;
}

class EndToEnd {
public:
  EndToEnd(const TuningContext &context, std::span<const TuningTask> tasks, std::span<const TunedKernel> kernels,
           const WholeRun &run, double seconds)
      : context(context), tasks(tasks), kernels(kernels), run(run),
        end(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        chosen(kernels.begin(), kernels.end()),
        compiled(context.compiler, context.options.compileThreads, context.options.stop),
        turns(context, isBoundByCompute(kernels) ? InterleavedRuns::ownClockVisit : InterleavedRuns::shortVisit) {}

  /// Nothing where there is nobody to choose from.
  Result<std::optional<EndToEndReport>> choose();
  /// The kernels as chosen; what is new in them is stored.
  std::vector<TunedKernel> keep();

private:
  void compile(std::span<const Contest> contests);
  Result<void> play(const Contest &contest, Clock::time_point deadline);
  Result<void> decide();
  Result<Entrant> entrantOf(std::span<const TunedKernel> lineup) const;
  void showProgress(std::size_t planned) const;

  const TuningContext &context;
  std::span<const TuningTask> tasks;
  std::span<const TunedKernel> kernels; ///< As their searches chose them.
  const WholeRun &run;
  const Clock::time_point end;
  std::vector<TunedKernel> chosen;          ///< The kernels chosen so far.
  std::map<std::size_t, Measurement> taken; ///< The measurements of the kernels that are new in it.
  CompileAhead compiled;
  InterleavedRuns turns;
  EndToEndReport report;
};

Result<std::optional<EndToEndReport>> EndToEnd::choose() {
  const std::vector<Contest> contests = findContests(context, tasks, kernels);
  if (contests.empty())
    return std::optional<EndToEndReport>();
  compile(contests);
  Result<Entrant> first = entrantOf(kernels);
  if (!first)
    return first.error();
  if (Result<void> prepared = turns.prepare(first->program, run.makeArgument); !prepared)
    return prepared.error();
  double usLeft = 0;
  std::size_t planned = 0;
  for (const Contest &contest : contests) {
    usLeft += contest.us;
    planned += contest.runnersUp.size();
  }
  for (const Contest &contest : contests) {
    showProgress(planned);
    const Clock::time_point now = Clock::now();
    const auto share = std::chrono::duration_cast<Clock::duration>((end - now) * (contest.us / usLeft));
    if (Result<void> played = play(contest, now + share); !played)
      return played.error();
    usLeft -= contest.us;
  }
  if (!taken.empty())
    if (Result<void> decided = decide(); !decided)
      return decided.error();
  return report.tried > 0 ? std::optional(report) : std::nullopt;
}

/// All runners-up, before anything is timed, which it would disturb.
void EndToEnd::compile(std::span<const Contest> contests) {
  std::optional<DeviceLock> busy;
  if (context.target.isCpu())
    busy.emplace(context.forCompiling());
  for (const Contest &contest : contests)
    for (const RunnerUp &runnerUp : contest.runnersUp)
      compiled.want(runnerUp.measurement.kernel, runnerUp.plan);
  const Clock::time_point now = Clock::now();
  compiled.finishBy(now + std::chrono::duration_cast<Clock::duration>((end - now) * compileShare));
}

/// Compares up to the deadline; the first round may also use the time of all later kernels.
Result<void> EndToEnd::play(const Contest &contest, Clock::time_point deadline) {
  Span span("end to end", tasks[contest.index].name);
  std::vector<TunedKernel> entered{chosen[contest.index]};
  std::vector<const Measurement *> measurements{nullptr}; // One for each, but for the one that is there.
  for (const RunnerUp &runnerUp : contest.runnersUp) {
    if (!compiled.isReady(runnerUp.measurement.kernel))
      continue;
    Result<runtime::CompiledKernel> binary = compiled.take(runnerUp.measurement.kernel, runnerUp.plan);
    if (!binary && binary.error().code == ErrorCode::Cancelled)
      return binary.error();
    if (!binary) {
      context.log(fmt::format("{} with {}: {}", tasks[contest.index].name, runnerUp.measurement.config.str(),
                              binary.error().message));
      continue;
    }
    entered.push_back(replacementOf(entered.front(), runnerUp, std::move(*binary)));
    measurements.push_back(&runnerUp.measurement);
  }
  const Clock::time_point lastEnd = end - 2 * turns.roundTime(2); // Two rounds of two are for decide().
  if (entered.size() < 2 || Clock::now() + turns.roundTime(entered.size()) > lastEnd)
    return {};
  std::vector<Entrant> field;
  for (const TunedKernel &kernel : entered) {
    std::vector<TunedKernel> lineup = chosen;
    lineup[contest.index] = kernel;
    Result<Entrant> entrant = entrantOf(lineup);
    if (!entrant)
      return entrant.error();
    field.push_back(std::move(*entrant));
  }
  Result<std::size_t> winner = turns.compare(field, std::min(deadline, lastEnd));
  if (!winner)
    return winner.error();
  report.tried += static_cast<int>(entered.size()) - 1;
  report.us = report.aloneUs = median(field[*winner].turns);
  if (*winner == 0)
    return {};
  chosen[contest.index] = std::move(entered[*winner]);
  taken[contest.index] = *measurements[*winner];
  return {};
}

/// Whether all winners together are faster than what the searches chose.
Result<void> EndToEnd::decide() {
  std::vector<Entrant> field;
  for (std::span<const TunedKernel> lineup : {kernels, std::span<const TunedKernel>(chosen)}) {
    Result<Entrant> entrant = entrantOf(lineup);
    if (!entrant)
      return entrant.error();
    field.push_back(std::move(*entrant));
  }
  Result<std::size_t> winner = turns.compare(field, end);
  if (!winner)
    return winner.error();
  report.us = report.aloneUs = median(field[*winner].turns);
  if (*winner == 0) {
    taken.clear();
    return {};
  }
  report.taken = static_cast<int>(taken.size());
  const std::vector<Turns> played{field.front().turns, field.back().turns};
  report.aloneUs *= std::exp(standingsOf(played).front().behind); // Turn by turn, as they were compared.
  return {};
}

std::vector<TunedKernel> EndToEnd::keep() {
  if (taken.empty())
    return {kernels.begin(), kernels.end()};
  for (const auto &[index, measurement] : taken) {
    const TunedKernel &kernel = chosen[index];
    context.log(fmt::format("{}: {} instead of {}, by the time of the whole run", tasks[index].name,
                            kernel.report.config, kernels[index].report.config));
    std::optional<Choice> choice = context.store.findChoice(kernel.report.region);
    const std::string searched = tuningKey(kernels[index].plan, context.compiler.version(), context.sku());
    if (!choice || choice->kernel != searched)
      continue; // The store takes nothing, or another process has stored something else since.
    choice->kernel = measurement.kernel;
    choice->config = measurement.config;
    choice->timing = measurement.timing;
    context.store.put(*choice, kernel.binary);
  }
  return std::move(chosen);
}

Result<Entrant> EndToEnd::entrantOf(std::span<const TunedKernel> lineup) const {
  Result<runtime::Program> program = run.build(lineup);
  return program ? Result<Entrant>(Entrant{std::move(*program)}) : program.error();
}

/// The whole run counts as one more kernel.
void EndToEnd::showProgress(std::size_t planned) const {
  if (context.options.progress)
    context.options.progress({.kernel = "the whole run",
                              .kernelsDone = static_cast<int>(tasks.size()),
                              .kernels = static_cast<int>(tasks.size()) + 1,
                              .candidatesDone = report.tried,
                              .candidates = static_cast<int>(planned),
                              .bestUs = report.us});
}

} // namespace

Result<std::optional<EndToEndReport>> chooseEndToEnd(const TuningContext &context, std::span<const TuningTask> tasks,
                                                     std::vector<TunedKernel> &kernels, const WholeRun &run,
                                                     double seconds) {
  EndToEnd contest(context, tasks, kernels, run, seconds);
  Result<std::optional<EndToEndReport>> report = contest.choose();
  if (report)
    kernels = contest.keep();
  return report;
}

} // namespace kfuse::tuner
