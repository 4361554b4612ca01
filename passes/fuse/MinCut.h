// Where a set of ops is cut in two so that the fewest bytes cross.
#pragma once

#include "passes/fuse/RegionBuilder.h"

namespace kfuse::passes {

/// Two groups of ops; what the first computes may be read by the second, never the other way.
struct Cut {
  llvm::SmallVector<mlir::Operation *> upper, lower; ///< In block order.
};

/// The cheapest cut of `ops` (in block order) that leaves `above` above and `below` below, in bytes through
/// memory: a value that crosses is stored and loaded (only loaded when others read it anyway), an input
/// that both sides read is loaded once more. A minimum s-t cut by maximum flow, with one node a value so
/// that it pays once however many read it (Boykov and Kolmogorov, 2004, as in Boost.Graph).
Cut minCut(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Operation *> above,
           llvm::ArrayRef<mlir::Operation *> below, const Transparency &transparency);

} // namespace kfuse::passes
