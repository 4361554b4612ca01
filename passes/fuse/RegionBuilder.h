// From a group of ops to the kfuse.fused that computes them.
#pragma once

#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace kfuse::passes {

/// Which ops of a block cost no kernel of their own.
///
/// A transparent op (layout, dequantising, or a value made of generators alone) is computed again inside each region
/// that reads it, where it only changes addresses. A reshape of a value in memory is not even that: it
/// stays outside as another name for the same bytes.
class Transparency {
public:
  explicit Transparency(mlir::Block &block);

  bool isTransparent(mlir::Operation *op) const { return op && transparent.contains(op); }
  /// From now on `op` is computed once, by a region, and read from memory.
  void materialise(mlir::Operation *op) { transparent.erase(op); }
  /// Takes that back.
  void absorb(mlir::Operation *op) { transparent.insert(op); }
  /// Whether `value` is in memory: an argument, a constant, a region's result, or a reshape of one.
  bool isStored(mlir::Value value) const;
  /// The ops that are neither transparent nor constants, which `value` depends on first.
  void forEachSource(mlir::Value value, llvm::function_ref<void(mlir::Value)> visit) const;
  /// Whether an op that is not one of `members`, or the function's end, reads `value`, as it is or through
  /// transparent ops, or it is an updated state.
  bool isReadOutside(mlir::Value value, llvm::ArrayRef<mlir::Operation *> members) const;

private:
  llvm::DenseSet<mlir::Operation *> transparent;
};

/// `value` before the reshapes on top of it.
mlir::Value peelReshapes(mlir::Value value);

/// A region and what it reads and gives, as values of the block around it.
struct BuiltRegion {
  llvm::SmallVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Value> outputs;
  mlir::OwningOpRef<ir::FusedOp> op; ///< Detached; its operands are `inputs`.

  mlir::Block &body() { return op->getBody().front(); }
};

/// Builds regions of one block's ops.
class RegionBuilder {
public:
  explicit RegionBuilder(const Transparency &transparency) : transparency(transparency) {}

  /// The region that computes `members`, given in block order. Its outputs are the members' results
  /// that others use.
  BuiltRegion build(llvm::ArrayRef<mlir::Operation *> members) const;
  /// One region of several, each of a layer's members, in an order they can run in: its body is their kfuse.fused ops.
  BuiltRegion chain(llvm::ArrayRef<llvm::SmallVector<mlir::Operation *>> layers) const;

private:
  const Transparency &transparency;
};

} // namespace kfuse::passes
