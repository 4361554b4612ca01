#include "PassHarness.h"
#include "RandomGraph.h"

#include "passes/MemoryPlan.h"
#include "passes/Passes.h"

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// Every op of a compiled function is a kernel, a constant or a view; every kernel is accepted.
void checkCovered(mlir::ModuleOp module, const ir::CostModel &model) {
  for (auto function : module.getOps<mlir::func::FuncOp>())
    for (mlir::Operation &op : function.getBody().front().without_terminator()) {
      bool isExpected = mlir::isa<ir::FusedOp, ir::ConstantOp, ir::ReshapeOp>(op);
      CHECK_MESSAGE(isExpected, op.getName().getStringRef().str());
      if (auto fused = mlir::dyn_cast<ir::FusedOp>(op))
        CHECK(model.accepts(fused.getBody().front()));
    }
}

/// A cost model that refuses regions of more than `most` computing ops, whatever they are.
class SmallRegionsOnly : public passes::ScalarFormCostModel {
public:
  SmallRegionsOnly(const ir::Target &target, size_t most) : ScalarFormCostModel(target), most(most) {}
  ir::FusionDecision accepts(mlir::Block &region) const override {
    size_t computing = 0;
    for (mlir::Operation &op : region.without_terminator())
      if (auto fusable = mlir::dyn_cast<ir::FusableOpInterface>(op))
        computing += fusable.getOpKind() != ir::OpKind::Layout && fusable.getOpKind() != ir::OpKind::Generator;
    if (computing > most)
      return ir::FusionDecision::no("too many ops");
    return ScalarFormCostModel::accepts(region);
  }

private:
  size_t most;
};

} // namespace

TEST_CASE("a random model computes the same after the whole pipeline") {
  passes::ScalarFormCostModel any(cpuTarget());
  SmallRegionsOnly small(cpuTarget(), 2);
  for (unsigned seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    std::string text = RandomGraph(seed).text();
    CAPTURE(text);
    ParsedModule before(text);
    REQUIRE_MESSAGE(before.module, before.diagnostic);
    Arguments arguments = randomArguments(before.module->lookupSymbol<mlir::func::FuncOp>("main"), seed);
    std::vector<Values> expected = evaluateModel(*before.module, arguments);
    for (const ir::CostModel *model :
         {static_cast<const ir::CostModel *>(&any), static_cast<const ir::CostModel *>(&small)})
      for (bool simplify : {true, false}) {
        ParsedModule after(text);
        REQUIRE(runPasses(*after.module, [&](mlir::PassManager &manager) {
                  passes::buildPipeline(manager, *model, {.simplify = simplify});
                }) == "");
        checkCovered(*after.module, *model);
        // Prepared values are rounded to f32.
        checkSame(evaluateModel(*after.module, arguments), expected, 1e-5);
      }
  }
}
