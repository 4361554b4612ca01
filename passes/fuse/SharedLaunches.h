// Small kernels that have nothing to do with each other, in one launch.
#pragma once

#include "passes/OpGraph.h"
#include "passes/fuse/RegionCosts.h"

namespace kfuse::passes {

/// Small kernels share a launch with an earlier one that they have nothing to do with: one of the last few, so that no
/// value waits long for its reader, and time grows with the number of kernels.
void shareLaunches(OpGraph &graph, RegionCosts &costs);

} // namespace kfuse::passes
