// The best kernels for a few neighbouring ops.
#pragma once

#include "passes/fuse/RegionCosts.h"

#include <string>

namespace kfuse::passes {

/// Larger windows are not searched: the number of partitions of 8 ops is 4140, of 10 ops 115975.
inline constexpr size_t largestWindow = 8;

/// A partition of a window's ops, which are named by their place in it.
struct WindowPartition {
  Spent spent{std::numeric_limits<double>::infinity()};
  llvm::SmallVector<llvm::SmallVector<unsigned>> regions; ///< In an order they can run in.
  llvm::SmallVector<unsigned> recomputed;                 ///< No region's own: each reader computes them again.
};

/// Searches windows of a block's ops exhaustively: all partitions into regions that the cost model accepts,
/// and for up to three values that several ops of the window read, all choices of computing them again in each
/// reader instead of storing them. By dynamic programming over what is done:
///
///     best(done + region) = min best(done) + cost(region)
///
/// Windows that are the same ops wired alike (of another layer) are searched once.
class WindowSearch {
public:
  /// Transparency changes during a search, and is itself again after it.
  WindowSearch(Transparency &transparency, const RegionBuilder &regions, const ir::CostModel &model)
      : transparency(transparency), regions(regions), model(model) {}

  /// `ops` in block order, a convex set. `mayRecompute` answers for ops that all of the block allows to be
  /// computed again.
  const WindowPartition &best(llvm::ArrayRef<mlir::Operation *> ops,
                              llvm::function_ref<bool(mlir::Operation *)> mayRecompute);

private:
  void search(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<unsigned> recomputed, WindowPartition &best);
  llvm::SmallVector<unsigned> needs(llvm::ArrayRef<mlir::Operation *> ops) const;
  std::vector<bool> connectedSets(llvm::ArrayRef<mlir::Operation *> ops) const;

  Transparency &transparency;
  const RegionBuilder &regions;
  const ir::CostModel &model;
  std::map<std::string, WindowPartition> known;
};

} // namespace kfuse::passes
