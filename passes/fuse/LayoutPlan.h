// Which layout is an address inside a kernel, and which is written to memory first.
#pragma once

#include "passes/Fixed.h"
#include "passes/fuse/RegionCosts.h"

namespace kfuse::passes {

/// Decides the layout in front of every op of a block. What is left are the units of fusion: ops that some
/// region computes, once.
class LayoutPlan {
public:
  /// Changes `transparency`, which `costs` sees.
  LayoutPlan(mlir::Block &block, Transparency &transparency, RegionBuilder &regions, RegionCosts &costs)
      : block(block), fixed(fixedValues(mlir::cast<mlir::func::FuncOp>(block.getParentOp()))),
        transparency(transparency), regions(regions), costs(costs) {}

  /// Failure after an error that names an op which no template takes, even alone.
  llvm::LogicalResult run();
  /// In block order.
  llvm::ArrayRef<mlir::Operation *> units() const { return found; }

private:
  void materialiseReturned();
  void boundLayout();
  llvm::LogicalResult decide(mlir::Operation *op);
  ir::FusionDecision materialiseOperands(mlir::Operation *op);
  void preferStoredOperands(mlir::Operation *product);
  bool isOfWeights(mlir::Value value) const;
  mlir::Operation *storableIn(mlir::Value operand) const;
  mlir::Operation *producerOf(mlir::Operation *layout) const;
  RegionCost costOf(llvm::ArrayRef<mlir::Operation *> members) const;

  mlir::Block &block;
  const llvm::DenseSet<mlir::Value> fixed;
  Transparency &transparency;
  RegionBuilder &regions;
  RegionCosts &costs;
  llvm::SmallVector<mlir::Operation *> found;
  llvm::DenseSet<mlir::Operation *> decided;
};

} // namespace kfuse::passes
