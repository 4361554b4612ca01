#include "tuner/Tuner.h"

#include "tuner/Key.h"
#include "tuner/Search.h"
#include "tuner/Untimed.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace kfuse::tuner {
namespace {

/// What the store has for a task: the kernel, or why not and the config that won under another driver.
struct Lookup {
  std::optional<TunedKernel> kernel;
  std::string miss;
  std::optional<codegen::TileConfig> seed;
};

/// A ladder of reasons to miss; what passes them all is trusted.
Lookup lookUp(const Workshop &shop, const TuningTask &task) {
  std::string compiler = shop.compiler.version();
  std::string region = regionKey(task.signature, task.templateName, shop.target.name, shop.sku(), compiler);
  std::optional<Choice> choice = shop.store.findChoice(region);
  if (!choice)
    return {.kernel = {}, .miss = "it was never tuned on this device with this compiler", .seed = {}};
  if (choice->driver != shop.driver())
    return {{}, fmt::format("it was tuned under driver {}, here is {}", choice->driver, shop.driver()), choice->config};
  if (choice->effort < shop.options.effort)
    return {{}, "it was tuned with less effort", choice->config};
  Result<codegen::KernelPlan> plan = task.emit(choice->config);
  if (!plan || tuningKey(*plan, compiler, shop.sku()) != choice->kernel)
    return {{}, "the template's source has changed", choice->config};
  std::optional<runtime::CompiledKernel> binary = shop.store.findBinary(choice->kernel);
  if (!binary)
    return {{}, "its binary is lost", choice->config};
  Roofline bound = roofline(task.work, shop.peaks);
  return {.kernel = TunedKernel{std::move(*plan), std::move(*binary), reportOf(task, *choice, bound, true)},
          .miss = {},
          .seed = {}};
}

} // namespace

Budget budgetOf(const TuneOptions &options) {
  Budget budget = options.effort == Effort::Full ? Budget{40, 20} : Budget{8, 2};
  if (options.secondsPerKernel > 0)
    budget.seconds = options.secondsPerKernel;
  return budget;
}

KernelReport reportOf(const TuningTask &task, const Choice &choice, const Roofline &bound, bool fromCache) {
  KernelReport report;
  report.name = task.name;
  report.ops = task.ops;
  report.templateName = task.templateName;
  report.config = choice.config.str();
  report.bound = bound;
  if (choice.timing)
    report.measuredUs = choice.timing->medianUs;
  report.candidates = choice.candidates;
  report.failed = choice.failed;
  report.cut = choice.cut;
  report.uses = task.uses;
  report.fromCache = fromCache;
  return report;
}

Result<std::vector<TunedKernel>> tune(const Workshop &shop, std::span<const TuningTask> tasks) {
  std::vector<std::optional<TunedKernel>> kernels;
  std::vector<const TuningTask *> untimed;
  for (const TuningTask &task : tasks) {
    Lookup found = lookUp(shop, task);
    kernels.push_back(std::move(found.kernel));
    if (kernels.back())
      continue;
    if (!shop.options.mayCompile)
      return Error{ErrorCode::NotTuned, fmt::format("kernel {} ({}) is not in the store: {}; tune it first", task.name,
                                                    task.ops, found.miss)};
    shop.log(fmt::format("{} is not taken from the store: {}", task.name, found.miss));
    if (!shop.device || shop.options.effort == Effort::None) {
      untimed.push_back(&task);
      continue;
    }
    Progress progress{.kernel = task.name, .index = kernels.size() - 1, .count = tasks.size()};
    Result<TunedKernel> winner = search(shop, task, found.seed, progress);
    if (!winner)
      return winner.error();
    kernels.back() = std::move(*winner);
  }
  Result<std::vector<TunedKernel>> ranked = compileBestRanked(shop, untimed);
  if (!ranked)
    return ranked.error();
  std::vector<TunedKernel> inOrder;
  inOrder.reserve(tasks.size());
  auto nextRanked = std::make_move_iterator(ranked->begin());
  for (std::optional<TunedKernel> &kernel : kernels)
    inOrder.push_back(kernel ? std::move(*kernel) : *nextRanked++);
  return inOrder;
}

} // namespace kfuse::tuner
