// Choice without measuring: the cost model's best candidate that compiles.
#pragma once

#include "tuner/search/Tuner.h"

#include <string>
#include <vector>

namespace kfuse::tuner {

/// Key of the cost model's own choice, which is another one than that of what was measured: neither replaces the other.
std::string untimedRegion(const TuningContext &context, const TuningTask &task);

/// Compiles the best-ranked candidate of each task, in parallel over the tasks, and keeps it as untimed.
/// One that does not compile, does not fit or spills gives way to the next; a spilling one is taken when
/// the effort's candidates hold nothing better. `begun`: when the store was asked for them, in Unix seconds.
Result<std::vector<TunedKernel>> compileBestRanked(const TuningContext &context,
                                                   const std::vector<const TuningTask *> &tasks, double begun);

} // namespace kfuse::tuner
