// Kernels of attention that random models become, emulated. KFUSE_SEEDS is how many models there are instead.
#include "tests/unit/RandomAttention.h"
#include "codegen/CostModel.h"
#include "codegen/KernelTemplate.h"
#include "codegen/MakeRegion.h"
#include "ir/reference/Policy.h"
#include "tests/emulation/Emulator.h"
#include "tests/unit/PassHarness.h"

#include <cstdlib>
#include <set>

using namespace kfuse;
using namespace kfuse::test;

namespace {

std::vector<int> statesOf(const codegen::Region &region) {
  std::vector<int> states;
  for (const ir::ScalarOutput &output : region.graph.outputs)
    states.push_back(output.inPlace);
  return states;
}

/// The first choice for a kernel against the reference evaluator.
void checkKernel(mlir::Block &body, const codegen::Region &region, const codegen::KernelPlan &plan, unsigned seed) {
  std::vector<HostTensor> inputs;
  for (mlir::BlockArgument argument : body.getArguments())
    inputs.push_back(randomArgument(argument, seed * 100 + argument.getArgNumber()));
  Result<EmulatedKernel> emulated = EmulatedKernel::compile(plan);
  REQUIRE_MESSAGE(emulated, emulated.error().message << "\n" << plan.source);
  auto outputs = emulated->run(inputs, statesOf(region), Copies::Late);
  REQUIRE_MESSAGE(outputs, outputs.error().message << "\n" << plan.source);
  auto verdicts = reference::checkOutputs(body, inputs, *outputs);
  REQUIRE_MESSAGE(verdicts, verdicts.error().message);
  for (const reference::Verdict &verdict : *verdicts)
    CHECK_MESSAGE((verdict.right || verdict.limit > 1), verdict.message << "\n" << plan.source);
}

} // namespace

TEST_CASE("Emulated random attention: every kernel that holds one is right") {
  const char *given = std::getenv("KFUSE_SEEDS");
  const unsigned first = 7000, count = given ? static_cast<unsigned>(std::atoi(given)) : 14;
  const ir::Target &target = *ir::findTarget("sm_90a");
  std::unique_ptr<ir::CostModel> costs = codegen::makeCostModel(target);
  std::set<std::string> known;
  for (unsigned seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    ParsedModule parsed(RandomAttention(seed).text());
    REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
    const std::string failed =
        runPasses(*parsed.module, [&](mlir::PassManager &manager) { passes::buildPipeline(manager, *costs); });
    REQUIRE_MESSAGE(failed.empty(), failed);
    parsed.module->walk([&](ir::FusedOp fused) {
      mlir::Block &body = fused.getBody().front();
      Result<codegen::Region> region = codegen::makeRegion(body);
      REQUIRE_MESSAGE(region, region.error().message);
      const codegen::KernelTemplate *source = codegen::templateFor(*region, target);
      REQUIRE(source);
      auto plan = source->emit(*region, source->candidates(*region, target).front(), target);
      REQUIRE_MESSAGE(plan, plan.error().message);
      if (known.insert(plan->source).second)
        checkKernel(body, *region, *plan, seed);
    });
  }
}
