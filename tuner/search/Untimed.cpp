#include "tuner/search/Untimed.h"

#include "tuner/record/Key.h"
#include "tuner/search/Candidates.h"
#include "tuner/search/CompileAhead.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace kfuse::tuner {
namespace {

/// One task on its way: its candidates and what came of those compiled so far.
struct Ranking {
  const TuningTask &task;
  CandidateQueue queue;
  std::optional<Candidate> candidate;
  int tried = 0;
  int failed = 0;
  std::string firstFailure;
};

struct Compiled {
  Candidate candidate;
  runtime::CompiledKernel binary;
};

/// Why the compiled candidate is not taken, or nothing.
std::optional<std::string> objection(const Candidate &candidate, const Result<runtime::CompiledKernel> &binary,
                                     const ir::Target &target) {
  if (!binary)
    return binary.error().message;
  if (std::optional<std::string> misfit = whyNotFit(candidate.plan, binary->facts, target))
    return misfit;
  if (binary->facts.spillBytes > 0)
    return fmt::format("spills {} bytes of registers", binary->facts.spillBytes);
  return std::nullopt;
}

/// Goes down the ranking from its best candidate, which is compiled ahead.
Result<Compiled> firstThatCompiles(const Workshop &shop, Ranking &ranking, CompileAhead &ahead) {
  std::optional<Compiled> spilled;
  int budget = budgetOf(shop).candidates;
  while (ranking.candidate && !(spilled && ranking.tried >= budget)) {
    ++ranking.tried;
    Result<runtime::CompiledKernel> binary = ahead.take(ranking.candidate->key, ranking.candidate->plan);
    std::optional<std::string> against = objection(*ranking.candidate, binary, shop.target);
    if (!against)
      return Compiled{std::move(*ranking.candidate), std::move(*binary)};
    if (!binary && binary.error().code != ErrorCode::Compile)
      return binary.error();
    ++ranking.failed;
    if (ranking.firstFailure.empty())
      ranking.firstFailure = fmt::format("{}: {}", ranking.candidate->config.str(), *against);
    if (binary && !spilled && !whyNotFit(ranking.candidate->plan, binary->facts, shop.target))
      spilled = Compiled{std::move(*ranking.candidate), std::move(*binary)};
    ranking.candidate = ranking.queue.next();
  }
  if (spilled)
    return std::move(*spilled);
  const Error reason =
      ranking.tried > 0 ? Error{ErrorCode::Compile, ranking.firstFailure} : ranking.queue.lastRefusal();
  return Error{reason.code,
               fmt::format("none of {} candidates compiles for kernel {} ({}): {}", ranking.task.candidates().size(),
                           ranking.task.name, ranking.task.ops, reason.message)};
}

TunedKernel keep(const Workshop &shop, const Ranking &ranking, Compiled winner, double begun) {
  const TuningTask &task = ranking.task;
  Choice choice;
  choice.at = begun;
  choice.compiler = shop.compiler.version();
  choice.region = untimedRegion(shop, task);
  choice.kernel = winner.candidate.key;
  choice.name = task.name;
  choice.ops = task.ops;
  choice.target = shop.target.name;
  choice.sku = shop.sku();
  choice.driver = shop.driver();
  choice.config = winner.candidate.config;
  choice.effort = shop.options.effort;
  choice.candidates = ranking.tried;
  choice.failed = ranking.failed;
  shop.store.put(choice, winner.binary);
  Roofline bound = roofline(task.work, shop.peaks);
  return {std::move(winner.candidate.plan), std::move(winner.binary), reportOf(task, choice, bound, false)};
}

} // namespace

std::string untimedRegion(const Workshop &shop, const TuningTask &task) {
  return regionKey(task.signature + "\nuntimed", task.templateName, shop.target.name, shop.sku(),
                   shop.compiler.version());
}

Result<std::vector<TunedKernel>> compileBestRanked(const Workshop &shop, const std::vector<const TuningTask *> &tasks,
                                                   double begun) {
  std::vector<Ranking> rankings;
  CompileAhead ahead(shop.compiler, shop.options.compileThreads, shop.options.stop);
  rankings.reserve(tasks.size());
  for (const TuningTask *task : tasks) {
    Ranking &ranking = rankings.emplace_back(Ranking{
        *task, CandidateQueue(*task, shop.target, shop.peaks, shop.compiler.version(), shop.sku()), {}, 0, 0, {}});
    ranking.candidate = ranking.queue.next();
    if (ranking.candidate)
      ahead.want(ranking.candidate->key, ranking.candidate->plan);
  }
  std::vector<TunedKernel> kernels;
  for (std::size_t i = 0; i < rankings.size(); ++i) {
    if (shop.isCancelled())
      return Error{ErrorCode::Cancelled, fmt::format("tuning was cancelled at kernel {}", tasks[i]->name)};
    Result<Compiled> winner = firstThatCompiles(shop, rankings[i], ahead);
    if (!winner)
      return winner.error();
    kernels.push_back(keep(shop, rankings[i], std::move(*winner), begun));
    if (shop.options.progress)
      shop.options.progress({tasks[i]->name, i, tasks.size(), 1, 1, 0});
  }
  return kernels;
}

} // namespace kfuse::tuner
