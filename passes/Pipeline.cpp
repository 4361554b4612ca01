#include "passes/Pipeline.h"

#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace kfuse::passes {

void buildPipeline(OpPassManager &manager, const ir::CostModel &model, const PipelineOptions &options) {
  manager.addNestedPass<func::FuncOp>(createExpandSequencesPass());
  if (options.simplify)
    manager.addNestedPass<func::FuncOp>(createSimplifyPass());
  manager.addNestedPass<func::FuncOp>(createInlineAttentionPass(&model));
  if (options.simplify) {
    manager.addNestedPass<func::FuncOp>(createMergeProductsPass(model, options.forms));
    manager.addNestedPass<func::FuncOp>(createFoldNormsPass(model, options.forms));
    manager.addNestedPass<func::FuncOp>(createOrientWeightsPass(model, options.forms));
  }
  manager.addPass(createSplitPreparePass());
  // From here on @prepare and @main are compiled alike.
  manager.addNestedPass<func::FuncOp>(createFusePass(model));
  manager.addNestedPass<func::FuncOp>(createTrimRowsPass());
  manager.addNestedPass<func::FuncOp>(createPlanMemoryPass());
}

LogicalResult runPipeline(ModuleOp module, const ir::CostModel &model, const PipelineOptions &options) {
  PassManager manager(module.getContext());
  buildPipeline(manager, model, options);
  return manager.run(module);
}

} // namespace kfuse::passes
