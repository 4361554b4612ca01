// What each op does with dimensions that follow lengths.
#pragma once

#include "passes/lengths/LengthMath.h"
#include "passes/lengths/Probes.h"

#include "llvm/ADT/DenseMap.h"

namespace kfuse::passes {

/// Goes through a graph from op to op: finds out which dimensions of each value follow which lengths, and puts ops in
/// front of those that would mix what counts with what does not.
class LengthRules {
public:
  LengthRules(const Probes &probes, LengthMath &math) : probes(probes), math(math) {}

  /// Dimensions of an argument, or of what is known to follow lengths by its size alone.
  Result<Axes> axesBySize(mlir::Value value) const;
  void set(mlir::Value value, Axes axes) { known[value] = std::move(axes); }
  llvm::ArrayRef<Axis> axesOf(mlir::Value value) const;
  bool isFixed(mlir::Value value) const;
  /// BadModel where the op cannot be done for lengths that a run gives.
  Result<void> visit(mlir::Operation *op);

private:
  Axes aligned(mlir::Operation *op);
  Axes multiply(ir::MatmulOp product);
  Axes reduce(ir::ReduceOp reduction);
  Axes softmax(ir::SoftmaxOp op);
  Axes slice(ir::SliceOp slice);
  Axes concat(ir::ConcatOp concat);
  Axes gather(ir::GatherOp gather);
  Axes window(ir::WindowOp window);
  Axes constant(ir::ConstantOp constant);
  Axes update(ir::StateUpdateOp update);
  Axes keepAll(mlir::Operation *op);
  void refuse(const std::string &reason);

  bool isZeroPast(mlir::Value value, unsigned dim) const;
  mlir::Value masked(mlir::Value value, unsigned dim, mlir::Attribute neutral);
  void maskFactor(ir::MatmulOp product, unsigned number, unsigned dim);
  void maskOperand(mlir::Operation *op, unsigned operand, unsigned dim, mlir::Attribute neutral);
  mlir::Value meanOfLengths(ir::ReduceOp reduction);
  std::optional<Axis> axisBySize(mlir::Value value, unsigned dim) const;

  const Probes &probes;
  LengthMath &math;
  llvm::DenseMap<mlir::Value, Axes> known;
  std::string refusal;     ///< Why the op that is visited is refused, or "".
  mlir::Value replacement; ///< What takes the place of the result of the op that is visited, or null.
};

} // namespace kfuse::passes
