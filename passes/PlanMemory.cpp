#include "passes/MemoryPlan.h"
#include "passes/Passes.h"

#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace kfuse::passes {
namespace {

struct PlanMemoryPass : PassWrapper<PlanMemoryPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanMemoryPass)
  StringRef getArgument() const override { return "kfuse-plan-memory"; }
  StringRef getDescription() const override { return "Offsets in one arena for the values between kernels"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    MemoryPlan plan = planMemory(function);
    Builder builder(function.getContext());
    for (auto fused : function.getOps<ir::FusedOp>()) {
      // -1 for results in the caller's memory.
      SmallVector<int64_t> offsets;
      for (Value result : fused.getResults()) {
        auto placed = plan.offsets.find(result);
        offsets.push_back(placed == plan.offsets.end() ? -1 : placed->second);
      }
      fused->setAttr("kfuse.offsets", builder.getDenseI64ArrayAttr(offsets));
    }
    function->setAttr("kfuse.arena_bytes", builder.getI64IntegerAttr(plan.arenaBytes));
    function->setAttr("kfuse.arena_lower_bound_bytes", builder.getI64IntegerAttr(plan.lowerBoundBytes));
  }
};

} // namespace

std::unique_ptr<Pass> createPlanMemoryPass() { return std::make_unique<PlanMemoryPass>(); }

} // namespace kfuse::passes
