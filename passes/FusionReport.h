// Why ops that meet were not fused, for people.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kfuse::passes {

/// `kfuse explain` prints these: the last refusal between two kernels that ended up apart.
struct FusionRefusal {
  std::string producer; ///< "matmul" with the name of its node where the model has one.
  std::string consumer;
  std::string reason;
};

/// Refusals stay on the function they concern, as the attribute kfuse.fusion_refusals.
void setFusionRefusals(mlir::func::FuncOp function, llvm::ArrayRef<FusionRefusal> refusals);

/// Those of every function of the module, @main's first.
std::vector<FusionRefusal> fusionRefusals(mlir::ModuleOp module);

} // namespace kfuse::passes
