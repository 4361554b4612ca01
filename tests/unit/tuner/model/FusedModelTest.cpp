// Random models on this machine's CPU are right fused and op by op.
#include "RandomModels.h"

using namespace kfuse;
using namespace kfuse::test;

TEST_CASE("random models on the CPU are right fused and op by op") {
  std::unique_ptr<ir::CostModel> fusing = codegen::makeCostModel(cpuTarget());
  OpByOp opByOp(cpuTarget());
  std::unique_ptr<runtime::Device> device = runtime::openCpu(2);
  std::unique_ptr<runtime::KernelCompiler> compiler = runtime::makeCpuCompiler();
  ModelRunner runner(cpuTarget(), *device, *compiler);
  for (unsigned seed = 1000; seed < 1200; ++seed) {
    CAPTURE(seed);
    std::string text = RandomGraph(seed, 10).text();
    checkModel(text, seed, *fusing, Fusion::Full, runner);
    if (seed % 4 == 0) // Op by op, a few graphs do: the kernels are alike.
      checkModel(text, seed, opByOp, Fusion::OpByOp, runner);
  }
}
