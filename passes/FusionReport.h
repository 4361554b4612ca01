// What fusion saved, and why ops that meet were not fused, for people.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kfuse::passes {

/// `kfuse explain` prints these: why two kernels that meet are two.
struct FusionRefusal {
  std::string producer; ///< "matmul" with the name of its node where the model has one.
  std::string consumer;
  std::string reason;
};

/// What one run of a function costs, by nominal facts of the target.
struct FusionTotals {
  int64_t launches = 0;
  double bytes = 0; ///< Through memory.
  double us = 0;    ///< Modelled.
};

struct FusionSavings {
  FusionTotals unfused; ///< Each op a kernel of its own; layout that only changes addresses is none.
  FusionTotals fused;
};

/// Reports stay on the function they concern, as the attributes kfuse.fusion_refusals and
/// kfuse.fusion_savings.
void setFusionRefusals(mlir::func::FuncOp function, llvm::ArrayRef<FusionRefusal> refusals);
void setFusionSavings(mlir::func::FuncOp function, const FusionSavings &savings);

/// Those of every function of the module, @main's first.
std::vector<FusionRefusal> fusionRefusals(mlir::ModuleOp module);
/// Zeros for a function that was not fused.
FusionSavings fusionSavings(mlir::func::FuncOp function);

} // namespace kfuse::passes
