// Which ops share a kernel.
#pragma once

#include "ir/CostModel.h"
#include "passes/FusionReport.h"
#include "passes/OpGraph.h"
#include "passes/fuse/RegionBuilder.h"

#include <map>
#include <optional>

namespace kfuse::passes {

/// A partition of a block's ops into regions that a kernel template takes, found greedily: each
/// anchor grows first downwards, then upwards; what is left joins its neighbours.
///
///     matmul -> add -> gelu          a product takes what follows element by element (its epilogue),
///         add -> rms_norm -> mul     a row reduction what precedes and follows,
///         mul -> cast -> transpose   the rest becomes chains.
class Partition {
public:
  Partition(mlir::Block &block, const ir::CostModel &model);

  /// Failure after an error that names an op which no template takes, even alone.
  llvm::LogicalResult run();

  const OpGraph &groups() const { return *graph; }
  BuiltRegion regionOf(OpGraph::Vertex group) const { return regions.build(graph->opsOf(group)); }
  /// For each pair of regions that meet, why they are two.
  std::vector<FusionRefusal> refusals() const;

private:
  using Vertex = OpGraph::Vertex;

  /// What fusion knows of a group.
  struct Traits {
    bool hasProduct = false, hasRows = false, isOpaque = false;
    int64_t points = 0; ///< Size of its iteration space, without a product's contraction.
    int64_t flops = 0;
  };
  Traits traitsOf(llvm::ArrayRef<mlir::Operation *> ops) const;

  // Layout that must be computed once instead of inside each reader.
  llvm::LogicalResult settleLayout(mlir::Operation *op);
  ir::FusionDecision materialiseOperands(mlir::Operation *op, const ir::FusionDecision &refusal);
  void preferStoredOperands(mlir::Operation *product);
  mlir::Operation *producerOf(mlir::Operation *layout) const;
  bool isCheaperCopied(mlir::Operation *product, mlir::Operation *layout, double absorbedUs) const;
  void materialiseReturned();

  // Groups and their order.
  void buildGraph();
  llvm::LogicalResult orderStateUpdates();

  // Merging.
  void growDown(Vertex group);
  void growUp(Vertex group);
  std::optional<Vertex> tryMerge(Vertex producer, Vertex consumer);
  ir::FusionDecision mayMerge(llvm::ArrayRef<Vertex> closed) const;
  ir::FusionDecision mayJoin(const Traits &producer, const Traits &consumer) const;
  ir::FusionDecision accepts(llvm::ArrayRef<mlir::Operation *> members) const;

  mlir::Block &block;
  const ir::CostModel &model;
  Transparency transparency;
  RegionBuilder regions;
  std::optional<OpGraph> graph;
  llvm::SmallVector<mlir::Operation *> units; ///< Ops that a region computes, in block order.
  llvm::DenseSet<mlir::Operation *> settled;
  std::map<std::pair<mlir::Operation *, mlir::Operation *>, std::string> refused;
  std::map<std::pair<Vertex, Vertex>, std::pair<size_t, size_t>> refusedSizes;
};

} // namespace kfuse::passes
