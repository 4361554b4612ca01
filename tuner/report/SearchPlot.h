// The search curve of one kernel: every measurement in its order, and the best so far.
#pragma once

#include "tuner/record/Measurement.h"
#include "tuner/report/Report.h"

#include <span>
#include <string>

namespace kfuse::tuner {

/// Logarithmic time up, the order of trials to the right; failures are crosses at the top.
std::string searchPlot(const KernelReport &kernel, std::span<const Measurement> trials);

} // namespace kfuse::tuner
