// Kernels in a row as one launch.
#pragma once

#include "passes/OpGraph.h"
#include "passes/fuse/RegionCosts.h"

#include <vector>

namespace kfuse::passes {

/// A layer of a chain: a group, or a product's and that of the norm of its rows.
using LayerGroups = llvm::SmallVector<OpGraph::Vertex, 2>;

/// Groups of ops that are one launch: one of them, or the layers of a chain.
struct Launched {
  llvm::SmallVector<LayerGroups> layers;
  RegionCost cost;
};

/// The region that a launch computes.
BuiltRegion regionOf(const OpGraph &graph, const RegionBuilder &regions, llvm::ArrayRef<LayerGroups> layers);

/// All groups in topological order. Layers that are neighbours in it, each of which reads a result of the one before
/// it, are one launch where the cost model takes them as a chain and says that it is faster. A run of them is asked for
/// whole, and by halves where it is not: time grows close to linearly.
std::vector<Launched> formChains(const OpGraph &graph, const RegionBuilder &regions, RegionCosts &costs);

} // namespace kfuse::passes
