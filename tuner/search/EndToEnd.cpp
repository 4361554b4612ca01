#include "tuner/search/EndToEnd.h"

#include "tuner/record/Key.h"
#include "tuner/record/Trace.h"
#include "tuner/search/CompileAhead.h"
#include "tuner/search/Rivals.h"
#include "tuner/search/RunTurns.h"

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

constexpr double leastShare = 0.02;  ///< Of the run, of a kernel worth a contest: 5 % of less is a thousandth.
constexpr double compileShare = 0.5; ///< Of the time, at most.

using Clock = RunTurns::Clock;

/// What a run spends in the kernel, by the kernel's own time.
double runUs(const TunedKernel &kernel) { return kernel.report.measuredUs.value_or(0) * kernel.report.uses; }

double runUs(std::span<const TunedKernel> kernels) {
  return std::accumulate(kernels.begin(), kernels.end(), 0.0,
                         [](double us, const TunedKernel &kernel) { return us + runUs(kernel); });
}

/// Most of the run.
bool isBoundByCompute(std::span<const TunedKernel> kernels) {
  double computeUs = 0;
  for (const TunedKernel &kernel : kernels)
    computeUs += kernel.report.bound.regime == Regime::Compute ? runUs(kernel) : 0;
  return computeUs > runUs(kernels) / 2;
}

/// A kernel that others came near to.
struct Contest {
  std::size_t index; ///< Of the kernel.
  double us;         ///< Of a run.
  std::vector<Rival> rivals;
};

/// The kernels with the largest share of the run first. Two processes find runs at a card's power limit up to 1 %
/// apart, which is for full effort to settle, or not to.
std::vector<Contest> findContests(const Workshop &shop, std::span<const TuningTask> tasks,
                                  std::span<const TunedKernel> kernels) {
  int launches = 0;
  for (const TunedKernel &kernel : kernels)
    launches += kernel.report.uses;
  const bool isFull = shop.options.effort == Effort::Full;
  if (launches < 2 || (isBoundByCompute(kernels) && !isFull))
    return {};
  const double allUs = runUs(kernels);
  std::vector<Contest> contests;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (const double us = runUs(kernels[i]); kernels[i].isNew && us >= leastShare * allUs)
      if (std::vector<Rival> rivals = rivalsOf(shop, tasks[i], kernels[i]); !rivals.empty())
        contests.push_back({i, us, std::move(rivals)});
  std::ranges::sort(contests, {}, [](const Contest &contest) { return std::pair(-contest.us, contest.index); });
  return contests;
}

/// The kernel with the rival's config.
TunedKernel replacementOf(const TunedKernel &kernel, const Rival &rival, runtime::CompiledKernel binary) {
  TunedKernel other = kernel;
  other.plan = rival.plan;
  other.binary = std::move(binary);
  other.report.config = rival.measurement.config.str();
  other.report.measuredUs = rival.measurement.timing->medianUs;
  return other;
}

class EndToEnd {
public:
  EndToEnd(const Workshop &shop, std::span<const TuningTask> tasks, std::span<const TunedKernel> kernels,
           const WholeRun &run, double seconds)
      : shop(shop), tasks(tasks), kernels(kernels), run(run),
        end(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        chosen(kernels.begin(), kernels.end()), compiled(shop.compiler, shop.options.compileThreads, shop.options.stop),
        turns(shop, isBoundByCompute(kernels) ? RunTurns::ownClockVisit : RunTurns::shortVisit) {}

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

  const Workshop &shop;
  std::span<const TuningTask> tasks;
  std::span<const TunedKernel> kernels; ///< As their searches chose them.
  const WholeRun &run;
  const Clock::time_point end;
  std::vector<TunedKernel> chosen;          ///< So far, ...
  std::map<std::size_t, Measurement> taken; ///< ... with these, of the kernels that are new in it.
  CompileAhead compiled;
  RunTurns turns;
  EndToEndReport report;
};

Result<std::optional<EndToEndReport>> EndToEnd::choose() {
  const std::vector<Contest> contests = findContests(shop, tasks, kernels);
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
    planned += contest.rivals.size();
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

/// All rivals, before anything is timed, which it would disturb.
void EndToEnd::compile(std::span<const Contest> contests) {
  std::optional<DeviceLock> busy;
  if (shop.target.isCpu())
    busy.emplace(shop.forCompiling());
  for (const Contest &contest : contests)
    for (const Rival &rival : contest.rivals)
      compiled.want(rival.measurement.kernel, rival.plan);
  const Clock::time_point now = Clock::now();
  compiled.settle(now + std::chrono::duration_cast<Clock::duration>((end - now) * compileShare));
}

/// Up to the deadline, but for a first round, which may take of the time of all others.
Result<void> EndToEnd::play(const Contest &contest, Clock::time_point deadline) {
  Span span("end to end", tasks[contest.index].name);
  std::vector<TunedKernel> entered{chosen[contest.index]};
  std::vector<const Measurement *> measurements{nullptr}; // Of each, but for the one that is there.
  for (const Rival &rival : contest.rivals) {
    if (!compiled.isReady(rival.measurement.kernel))
      continue;
    Result<runtime::CompiledKernel> binary = compiled.take(rival.measurement.kernel, rival.plan);
    if (!binary && binary.error().code == ErrorCode::Cancelled)
      return binary.error();
    if (!binary) {
      shop.log(fmt::format("{} with {}: {}", tasks[contest.index].name, rival.measurement.config.str(),
                           binary.error().message));
      continue;
    }
    entered.push_back(replacementOf(entered.front(), rival, std::move(*binary)));
    measurements.push_back(&rival.measurement);
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
    shop.log(fmt::format("{}: {} instead of {}, by the time of the whole run", tasks[index].name, kernel.report.config,
                         kernels[index].report.config));
    std::optional<Choice> choice = shop.store.findChoice(kernel.report.region);
    const std::string searched = tuningKey(kernels[index].plan, shop.compiler.version(), shop.sku());
    if (!choice || choice->kernel != searched)
      continue; // The store takes nothing, or another process has stored something else since.
    choice->kernel = measurement.kernel;
    choice->config = measurement.config;
    choice->timing = measurement.timing;
    shop.store.put(*choice, kernel.binary);
  }
  return std::move(chosen);
}

Result<Entrant> EndToEnd::entrantOf(std::span<const TunedKernel> lineup) const {
  Result<runtime::Program> program = run.build(lineup);
  return program ? Result<Entrant>(Entrant{std::move(*program)}) : program.error();
}

/// As of one more kernel.
void EndToEnd::showProgress(std::size_t planned) const {
  if (shop.options.progress)
    shop.options.progress({.kernel = "the whole run",
                           .index = tasks.size(),
                           .count = tasks.size() + 1,
                           .tried = report.tried,
                           .planned = static_cast<int>(planned),
                           .bestUs = report.us});
}

} // namespace

Result<std::optional<EndToEndReport>> chooseEndToEnd(const Workshop &shop, std::span<const TuningTask> tasks,
                                                     std::vector<TunedKernel> &kernels, const WholeRun &run,
                                                     double seconds) {
  EndToEnd contest(shop, tasks, kernels, run, seconds);
  Result<std::optional<EndToEndReport>> report = contest.choose();
  if (report)
    kernels = contest.keep();
  return report;
}

} // namespace kfuse::tuner
