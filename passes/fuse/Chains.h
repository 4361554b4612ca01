// Kernels in a row as one launch.
#pragma once

#include "passes/OpGraph.h"
#include "passes/fuse/RegionCosts.h"

#include <vector>

namespace kfuse::passes {

/// Groups of ops that are one launch: a kernel, or several in a row whose blocks wait for each other.
struct Launched {
  llvm::SmallVector<OpGraph::Vertex> groups;
  RegionCost cost;
};

/// All groups in topological order. Neighbours in it, each of which reads a result of the one before it, are one launch
/// where the cost model takes them as a chain and says that it is faster. A run of them is asked for whole, and by
/// halves where it is not: time grows close to linearly.
std::vector<Launched> formChains(const OpGraph &graph, const RegionBuilder &regions, RegionCosts &costs);

} // namespace kfuse::passes
