// Search of one kernel's configs on the device.
#pragma once

#include "tuner/Tuner.h"

#include <optional>

namespace kfuse::tuner {

/// Compiles candidates ahead, checks each, measures those that are right, compares the fastest again and
/// keeps the winner. `seed` is a config to try first. `progress.kernel`, `index` and `count` are set.
/// Candidates that failed before are passed over, unless nothing else works.
Result<TunedKernel> search(const Workshop &workshop, const TuningTask &task,
                           const std::optional<codegen::TileConfig> &seed, const Progress &progress);

} // namespace kfuse::tuner
