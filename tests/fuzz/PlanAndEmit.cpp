#include "tests/fuzz/PlanAndEmit.h"

#include "tuner/model/PlannedModel.h"

#include <cstdio>
#include <cstdlib>

namespace kfuse::test {
namespace {

template <class T> void refusesWithReason(const Result<T> &result) {
  if (result || (!result.error().message.empty() && result.error().code != ErrorCode::Internal))
    return;
  std::fprintf(stderr, "bug: %s\n", result.error().message.c_str());
  std::abort();
}

} // namespace

void planAndEmit(mlir::ModuleOp module) {
  for (const char *name : {"cpu", "sm_80", "sm_90a"}) {
    const ir::Target &target = *ir::findTarget(name);
    Result<tuner::PlannedModel> planned = tuner::planModel(module, target);
    refusesWithReason(planned);
    if (!planned)
      continue;
    for (const tuner::PlannedKernel &kernel : planned->kernels)
      if (auto configs = kernel.kernelTemplate->candidates(kernel.region, target); !configs.empty())
        refusesWithReason(kernel.kernelTemplate->emit(kernel.region, configs.front(), target));
  }
}

} // namespace kfuse::test
