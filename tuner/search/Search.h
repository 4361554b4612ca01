// Search of one kernel's configs on the device.
#pragma once

#include "tuner/search/CompileAhead.h"
#include "tuner/search/Tuner.h"

#include <optional>

namespace kfuse::tuner {

/// Checks candidates, best estimate first, as they come from `compiled`; measures those that are right; compares the
/// fastest again and keeps the winner. It ends when the best is at the roof and the first eight were tried, when
/// nothing that is left can win, or when the budget's time or candidates are spent (StopReason). `seed` is a config to
/// try first. `progress.kernel`, `kernelsDone` and `kernels` are set. Candidates that failed before are passed over,
/// unless nothing else works.
Result<TunedKernel> search(const TuningContext &context, CompileAhead &compiled, const TuningTask &task,
                           const Budget &budget, const std::optional<codegen::TileConfig> &seed,
                           const Progress &progress);

} // namespace kfuse::tuner
