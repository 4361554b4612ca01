// Who came near to the winner of a search, made again from what the store knows of them.
#pragma once

#include "tuner/search/Tuner.h"

#include <vector>

namespace kfuse::tuner {

/// Another config of a kernel, which was right in its search.
struct RunnerUp {
  Measurement measurement; ///< Timed.
  codegen::KernelPlan plan;
};

/// Up to 2 configs, or with full effort 4, that met the winner in its finals, under this driver, and took up to 5 %
/// more. (A first look finds the card at another clock, up to a tenth higher.) The fastest of each kind
/// (ConfigSpace::kindOf) that has none yet come before those of which near duplicates would tell little, fastest first.
/// Configs whose kernel the template has changed since are passed over.
std::vector<RunnerUp> runnersUpOf(const TuningContext &context, const TuningTask &task, const TunedKernel &winner);

} // namespace kfuse::tuner
