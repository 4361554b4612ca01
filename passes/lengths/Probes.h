// What follows the lengths in a graph: found by comparing it with the same graph for other sizes.
#pragma once

#include "passes/Lengths.h"
#include "passes/lengths/Axis.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace kfuse::passes {

/// A graph and its probes, op beside op.
class Probes {
public:
  /// BadModel where they are not the same ops; Usage where the lengths and the probes do not fit.
  static Result<Probes> match(mlir::func::FuncOp main, const std::vector<Length> &lengths,
                              const std::vector<LengthProbe> &probes);

  /// The number that `read` finds in each graph, as it follows one length evenly, or none; nothing where it follows
  /// them otherwise. `read` gets `value` as it is in a graph.
  std::optional<Factor> fit(mlir::Value value, llvm::function_ref<std::int64_t(mlir::Value)> read) const;
  /// The same of a dimension's size.
  std::optional<Factor> fitSize(mlir::Value value, unsigned dim) const;
  /// Whether the dimensions of `value` have these sizes in every graph.
  bool agree(mlir::Value value, llvm::ArrayRef<Axis> axes) const;
  /// `value` in each probe.
  llvm::SmallVector<mlir::Value> in(mlir::Value value) const;
  /// The fewest elements that a run may have of `factor`.
  std::int64_t least(const Factor &factor) const;
  const std::vector<Length> &lengths() const { return dims; }

private:
  struct Probe {
    unsigned dim = 0;
    llvm::SmallVector<std::int64_t> sizes; ///< The size of every dimension in this probe.
    llvm::DenseMap<mlir::Value, mlir::Value> values;
  };

  std::vector<Length> dims;
  std::vector<Probe> probes;
};

} // namespace kfuse::passes
