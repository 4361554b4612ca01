// Which ops share a kernel.
#pragma once

#include "ir/CostModel.h"
#include "passes/FusionReport.h"
#include "passes/OpGraph.h"
#include "passes/fuse/Chains.h"
#include "passes/fuse/LongRuns.h"
#include "passes/fuse/RegionBuilder.h"
#include "passes/fuse/RegionCosts.h"
#include "passes/fuse/Window.h"

#include <optional>
#include <queue>
#include <tuple>

namespace kfuse::passes {

/// A partition of a block's ops into regions that a kernel template takes, chosen by estimated time.
///
///     matmul -> add -> gelu -> rms_norm -> matmul      each op by itself
///     [matmul  add  gelu]  [rms_norm]  [matmul]        merged, products first, the largest saving first
///     [matmul  add] [gelu  rms_norm]   [matmul]        searched again in windows of up to 8 ops (Window.h),
///     [matmul  add] [add' exp] [add' neg]                where values may also be computed twice,
///                                                        and cut again where fewer bytes cross (MinCut.h)
///     [[matmul  add] [matmul  gelu] [matmul]]          groups in a row that one launch computes (Chains.h)
///
/// Merging is greedy and corrections are local, so that time grows with the number of ops; on graphs of up to
/// 12 ops the result is within 2 % of the best of all partitions (tests/unit/passes/PartitionTest.cpp).
class Partition {
public:
  Partition(mlir::Block &block, const ir::CostModel &model);

  /// Failure after an error that names an op which no template takes, even alone.
  llvm::LogicalResult run();

  const OpGraph &groups() const { return *graph; }
  /// Makes one launch of groups in a row where that is estimated faster (Chains.h).
  void formChains();
  /// The groups in an order they can run in; those of a chain are one launch.
  llvm::ArrayRef<Launched> launches() const { return launched; }
  BuiltRegion regionOf(llvm::ArrayRef<LayerGroups> layers) const;
  /// For each pair of regions that meet, why they are two. After formChains().
  std::vector<FusionRefusal> refusals();
  /// The costs of the partition, and of each op as a kernel of its own.
  FusionTotals totals();
  const FusionTotals &unfusedTotals() const { return unfused; }

private:
  using Vertex = OpGraph::Vertex;

  // The graph.
  void buildGraph(llvm::ArrayRef<mlir::Operation *> units);
  llvm::LogicalResult orderStateUpdates(llvm::ArrayRef<mlir::Operation *> units);

  // Merging.
  struct Merge {
    int rank;       ///< 4 with attention to a state and the state's update, 3 with a product, 2 with a row reduction, 1
                    ///< without; 0 where the two do not feed each other.
    unsigned first; ///< Among products and rows, the first in the block grows first.
    double savedUs;
    Vertex a, b;
    bool operator<(const Merge &other) const {
      return std::tie(rank, other.first, savedUs, other.a, other.b) < std::tie(other.rank, first, other.savedUs, a, b);
    }
  };
  void mergeAll();
  void considerAround(Vertex group);
  void consider(Vertex a, Vertex b);
  llvm::SmallVector<Vertex> siblingsOf(Vertex group) const;
  llvm::SmallVector<Vertex> nearConsumersOf(Vertex group) const;
  llvm::SmallVector<Vertex> nearProducersOf(Vertex group) const;

  // Corrections; true when something changed.
  bool isBetter(const Spent &then, const Spent &now) const;
  bool searchWindows();
  bool searchAround(Vertex group);
  llvm::SmallVector<Vertex> windowAround(Vertex group) const;
  bool recompute();
  bool tryRecompute(llvm::ArrayRef<mlir::Operation *> ops);
  llvm::SmallVector<mlir::Operation *> coneOf(mlir::Operation *op) const;
  bool mayRecompute(mlir::Operation *op) const;
  void recompute(mlir::Operation *op);
  bool recut();
  bool recut(Vertex upper, Vertex lower);

  const RegionCost &costOf(Vertex group) { return costs.of(graph->opsOf(group)); }

  mlir::Block &block;
  Transparency transparency;
  RegionBuilder regions;
  RegionCosts costs;
  WindowSearch windows;
  std::optional<OpGraph> graph;
  std::vector<Launched> launched;            ///< Empty before formChains.
  ValueReaders readers;                      ///< Who reads values in memory.
  llvm::DenseSet<mlir::Value> readByUpdates; ///< What updates of states take: states, values, positions.
  llvm::DenseSet<mlir::Value> returned;      ///< As they are or through reshapes: these must be in memory.
  std::priority_queue<Merge> merges;
  FusionTotals unfused;
};

} // namespace kfuse::passes
