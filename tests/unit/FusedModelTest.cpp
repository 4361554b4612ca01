// Whole random models on this machine's CPU, fused and op by op, judged by the numerics policy.
#include "ModelRunner.h"
#include "RandomGraph.h"

#include "codegen/CostModel.h"
#include "ir/reference/Policy.h"

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// What the CPU's templates take, but no more than one computing op a kernel.
class OpByOp : public ir::CostModel {
public:
  const ir::Target &target() const override { return cpuTarget(); }
  ir::FusionDecision accepts(mlir::Block &region) const override {
    ir::FusionDecision small = SmallRegionsOnly(cpuTarget(), 1).accepts(region);
    return small ? templates->accepts(region) : small;
  }
  ir::KernelCost cost(mlir::Block &region) const override { return templates->cost(region); }

private:
  std::unique_ptr<ir::CostModel> templates = codegen::makeCostModel(cpuTarget());
};

} // namespace

TEST_CASE("random models on the CPU are right fused and op by op") {
  std::unique_ptr<ir::CostModel> fusing = codegen::makeCostModel(cpuTarget());
  OpByOp opByOp;
  std::unique_ptr<runtime::Device> device = runtime::openCpu(2);
  std::unique_ptr<runtime::KernelCompiler> compiler = runtime::makeCpuCompiler();
  ModelRunner runner(cpuTarget(), *device, *compiler);
  for (unsigned seed = 1000; seed < 1200; ++seed) {
    CAPTURE(seed);
    std::string text = RandomGraph(seed, 10).text();
    CAPTURE(text);
    ParsedModule parsed(text);
    REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
    auto main = parsed.module->lookupSymbol<mlir::func::FuncOp>("main");
    Arguments arguments = randomArguments(main, seed);
    std::vector<HostTensor> ordered;
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      ordered.push_back(arguments.at(nameOf(main.getArgAttrDict(i), i)));
    // Op by op, a few graphs do: the kernels are alike.
    for (const ir::CostModel *model :
         {static_cast<const ir::CostModel *>(fusing.get()), static_cast<const ir::CostModel *>(&opByOp)}) {
      bool isFused = model == fusing.get();
      CAPTURE(isFused);
      if (!isFused && seed % 4 != 0)
        continue;
      auto planned = tuner::planModel(*parsed.module, *model, {.simplify = isFused});
      REQUIRE_MESSAGE(planned, planned.error().message);
      std::vector<HostTensor> results = runner.run(*planned, arguments);
      auto verdicts = reference::checkOutputs(main.getBody().front(), ordered, results);
      REQUIRE_MESSAGE(verdicts, verdicts.error().message);
      // Where sums cancel, the evaluation that rounds after every op has no digit right either: no verdict.
      for (const reference::Verdict &verdict : *verdicts)
        CHECK_MESSAGE((verdict.right || verdict.limit > 1), verdict.message);
    }
  }
}
