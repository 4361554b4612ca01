// Some products and what follows them, as a model of its own that can be rewritten and estimated apart.
#pragma once

#include "ir/CostModel.h"
#include "passes/products/Parallel.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace kfuse::passes {

struct Neighbourhood {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< @main, with the roles of its arguments; null when it is too large.
  Products products;                        ///< In it.

  /// Equal for neighbourhoods of layers that are alike.
  std::string key();
  mlir::func::FuncOp main() { return module->lookupSymbol<mlir::func::FuncOp>("main"); }
};

/// The products, the norm in front of them, and everything behind them up to the next products.
Neighbourhood neighbourhoodOf(llvm::ArrayRef<ir::MatmulOp> products, const llvm::DenseSet<mlir::Value> &fixed);

/// Estimated microseconds of one run of @main, fused; infinite where it cannot be compiled. What depends on
/// parameters alone costs nothing.
double estimateUs(mlir::ModuleOp module, const ir::CostModel &model);

} // namespace kfuse::passes
