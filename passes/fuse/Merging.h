// What a merge of groups saves.
#pragma once

#include "passes/OpGraph.h"
#include "passes/fuse/RegionCosts.h"

namespace kfuse::passes {

/// A merge saves at least this.
inline constexpr double worthUs = 1e-6;
/// From so many groups on, what would be found step by step is tried at once first.
inline constexpr size_t largeGraph = 1024;
/// A value with more readers (a table of all layers) joins none of them.
inline constexpr size_t mostSiblings = 8;

/// Microseconds that the groups `closed`, between which no other lies, save as one; 0 where they are too many or too
/// large.
double savedBy(llvm::ArrayRef<OpGraph::Vertex> closed, const OpGraph &graph, RegionCosts &costs);

} // namespace kfuse::passes
