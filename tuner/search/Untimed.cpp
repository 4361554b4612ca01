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
Result<Compiled> firstThatCompiles(const TuningContext &context, Ranking &ranking, CompileAhead &ahead) {
  std::optional<Compiled> spilled;
  int budget = budgetOf(context).candidates;
  while (ranking.candidate && !(spilled && ranking.tried >= budget)) {
    ++ranking.tried;
    Result<runtime::CompiledKernel> binary = ahead.take(ranking.candidate->key, ranking.candidate->plan);
    std::optional<std::string> against = objection(*ranking.candidate, binary, context.target);
    if (!against)
      return Compiled{std::move(*ranking.candidate), std::move(*binary)};
    if (!binary && binary.error().code != ErrorCode::Compile)
      return binary.error();
    ++ranking.failed;
    if (ranking.firstFailure.empty())
      ranking.firstFailure = fmt::format("{}: {}", ranking.candidate->config.str(), *against);
    if (binary && !spilled && !whyNotFit(ranking.candidate->plan, binary->facts, context.target))
      spilled = Compiled{std::move(*ranking.candidate), std::move(*binary)};
    ranking.candidate = ranking.queue.next();
  }
  if (spilled)
    return std::move(*spilled);
  const Error reason =
      ranking.tried > 0 ? Error{ErrorCode::Compile, ranking.firstFailure} : ranking.queue.lastRefusal();
  return Error{reason.code, fmt::format("none of {} candidates compiles for kernel {} ({}): {}",
                                        ranking.task.space->candidates().size(), ranking.task.name, ranking.task.ops,
                                        reason.message)};
}

TunedKernel keep(const TuningContext &context, const Ranking &ranking, Compiled winner, double begun) {
  const TuningTask &task = ranking.task;
  Choice choice;
  choice.at = begun;
  choice.compiler = context.compiler.version();
  choice.region = untimedRegion(context, task);
  choice.kernel = winner.candidate.key;
  choice.name = task.name;
  choice.ops = task.ops;
  choice.target = context.target.name;
  choice.sku = context.sku();
  choice.driver = context.driver();
  choice.config = winner.candidate.config;
  choice.effort = context.options.effort;
  choice.candidates = ranking.tried;
  choice.failed = ranking.failed;
  context.store.put(choice, winner.binary);
  Roofline bound = roofline(task.work, context.peaks);
  return {std::move(winner.candidate.plan), std::move(winner.binary), reportOf(task, choice, bound, false)};
}

} // namespace

std::string untimedRegion(const TuningContext &context, const TuningTask &task) {
  // Cards of one architecture rank differently, and where no device is here the SKU does not tell them apart.
  const std::string card = context.target.card.empty() ? "" : "\n" + context.target.card;
  return regionKey(task.signature + "\nuntimed" + card, task.templateName, context.target.name, context.sku(),
                   context.compiler.version());
}

Result<std::vector<TunedKernel>> compileBestRanked(const TuningContext &context,
                                                   const std::vector<const TuningTask *> &tasks, double begun) {
  std::vector<Ranking> rankings;
  CompileAhead ahead(context.compiler, context.options.compileThreads, context.options.stop);
  rankings.reserve(tasks.size());
  for (const TuningTask *task : tasks) {
    Ranking &ranking = rankings.emplace_back(
        Ranking{*task,
                CandidateQueue(*task, context.target, context.peaks, context.compiler.version(), context.sku()),
                {},
                0,
                0,
                {}});
    ranking.candidate = ranking.queue.next();
    if (ranking.candidate)
      ahead.want(ranking.candidate->key, ranking.candidate->plan);
  }
  std::vector<TunedKernel> kernels;
  for (std::size_t i = 0; i < rankings.size(); ++i) {
    if (context.isCancelled())
      return Error{ErrorCode::Cancelled, fmt::format("tuning was cancelled at kernel {}", tasks[i]->name)};
    Result<Compiled> winner = firstThatCompiles(context, rankings[i], ahead);
    if (!winner)
      return winner.error();
    kernels.push_back(keep(context, rankings[i], std::move(*winner), begun));
    if (context.options.progress)
      context.options.progress({.kernel = tasks[i]->name,
                                .kernelsDone = static_cast<int>(i),
                                .kernels = static_cast<int>(tasks.size()),
                                .candidatesDone = 1,
                                .candidates = 1});
  }
  return kernels;
}

} // namespace kfuse::tuner
