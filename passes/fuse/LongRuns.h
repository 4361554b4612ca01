// Elementwise ops of large graphs, merged many at a time.
#pragma once

#include "passes/OpGraph.h"
#include "passes/fuse/RegionCosts.h"

namespace kfuse::passes {

/// The ops that read a value from memory.
using ValueReaders = llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *>>;

/// In a large graph, elementwise ops that hang together by more than a model's kernels have merge at once, as many as a
/// region holds: one by one they would become the same regions, and each step prices all neighbours again.
void mergeLongRuns(OpGraph &graph, RegionCosts &costs, const ValueReaders &readers);

} // namespace kfuse::passes
