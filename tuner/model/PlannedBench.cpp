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

Result<PlannedBench> openAndPlan(mlir::ModuleOp module, const WorkbenchOptions &options, bool simplify) {
  std::optional<Result<PlannedModel>> planned;
  std::future<void> driver; // The driver starts once per process: who asks meanwhile waits.
  if (const ir::Target *likely = likelyGpu(options)) {
    driver = std::async(std::launch::async, [] { (void)runtime::listGpus(); });
    planned = planModel(module, *likely, simplify);
  }
  Result<Workbench> bench = openWorkbench(options);
  if (!bench)
    return bench.error();
  const bool isForBench = planned && *planned && *(**planned).target == *bench->target;
  if (!isForBench)
    planned = planModel(module, *bench->target, simplify);
  if (!*planned)
    return planned->error();
  return PlannedBench{std::move(*bench), std::move(**planned)};
}

} // namespace kfuse::tuner
