// From an imported graph to planned kernels, in one place.
#pragma once

#include "ir/CostModel.h"
#include "passes/FusionReport.h"
#include "passes/products/WeightForms.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace kfuse::passes {

struct PipelineOptions {
  bool simplify = true; ///< Off: the graph is fused as it was imported.
  SharedForms forms{};  ///< Those of the network that this is one program of.
};

/// Adds the passes in their order. `model` must outlive the pass manager.
void buildPipeline(mlir::OpPassManager &manager, const ir::CostModel &model, const PipelineOptions &options = {});

/// Runs them on a module with a function @main. Failures are reported as MLIR diagnostics.
llvm::LogicalResult runPipeline(mlir::ModuleOp module, const ir::CostModel &model, const PipelineOptions &options = {});

} // namespace kfuse::passes
