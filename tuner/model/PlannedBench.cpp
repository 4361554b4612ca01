#include "tuner/model/PlannedBench.h"

#include <future>

namespace kfuse::tuner {
namespace {

/// The GPU that the workbench will most likely have, as far as can be told before a driver has started; or null.
const ir::Target *likelyGpu(const WorkbenchOptions &options) {
  if (!runtime::hasCudaDriver())
    return nullptr;
  const Store::TunedFor newest = Store::newestIn(options.store);
  const ir::Target *likely = ir::findTarget(options.target != "auto" ? options.target : newest.target);
  if (!likely || likely->isCpu())
    return nullptr;
  const bool isOfNewest = likely->card.empty() && likely->name == newest.target;
  return isOfNewest ? &ir::targetOfDevice(*likely, newest.sku) : likely;
}

} // namespace

Result<PlannedBenches> openAndPlan(std::span<const mlir::ModuleOp> modules, const WorkbenchOptions &options,
                                   bool simplify) {
  std::optional<Result<std::vector<PlannedModel>>> planned;
  std::future<void> driver; // The driver starts once per process: who asks meanwhile waits.
  if (const ir::Target *likely = likelyGpu(options)) {
    driver = std::async(std::launch::async, [] { (void)runtime::listGpus(); });
    planned = planModels(modules, *likely, simplify);
  }
  Result<Workbench> bench = openWorkbench(options);
  if (!bench)
    return bench.error();
  const bool isForBench = planned && *planned && *(**planned).front().target == *bench->target;
  if (!isForBench)
    planned = planModels(modules, *bench->target, simplify);
  if (!*planned)
    return planned->error();
  return PlannedBenches{std::move(*bench), std::move(**planned)};
}

Result<PlannedBench> openAndPlan(mlir::ModuleOp module, const WorkbenchOptions &options, bool simplify) {
  Result<PlannedBenches> opened = openAndPlan(std::span(&module, 1), options, simplify);
  if (!opened)
    return opened.error();
  return PlannedBench{std::move(opened->bench), std::move(opened->planned.front())};
}

} // namespace kfuse::tuner
