// Random models on the GPU are right fused and op by op, in f32 and bf16. Compilation runs on all cores.
#include "codegen/cuda/text/DeviceLibrary.h"
#include "tests/gpu/Gpu.h"
#include "tests/unit/RandomAttention.h"
#include "tests/unit/RandomModels.h"

#include <atomic>
#include <thread>

using namespace kfuse;
using namespace kfuse::test;

namespace {

using TextOf = std::string (*)(unsigned seed);

/// Models until none of the `count` from seed `first` on is left; threads share `next`.
void checkModels(TextOf textOf, unsigned first, unsigned count, std::atomic<unsigned> &next) {
  Gpu gpu;
  const ir::Target &target = *ir::findTarget(gpu.device->target());
  auto compiler = take(runtime::makeCudaCompiler(codegen::cuda::deviceHeaders()));
  std::unique_ptr<ir::CostModel> fusing = codegen::makeCostModel(target);
  OpByOp opByOp(target);
  ModelRunner runner(target, *gpu.device, *compiler);
  for (unsigned i = next++; i < count; i = next++) {
    const unsigned seed = first + i;
    CAPTURE(seed);
    std::string text = textOf(seed);
    checkModel(text, seed, *fusing, Fusion::Full, runner);
    if (seed % 4 < 2)
      checkModel(text, seed, opByOp, Fusion::OpByOp, runner);
  }
}

void checkOnAllCores(TextOf textOf, unsigned first, unsigned count) {
  std::atomic<unsigned> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      try {
        checkModels(textOf, first, count, next);
      } catch (const std::exception &error) {
        FAIL_CHECK(error.what());
      } catch (...) { // A REQUIRE that failed: it is counted.
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(next.load() >= count);
}

} // namespace

TEST_CASE("random models on the GPU are right fused and op by op") { checkOnAllCores(modelForGpu, 5000, 300); }

TEST_CASE("random attention on the GPU is right fused and op by op") {
  checkOnAllCores([](unsigned seed) { return RandomAttention(seed).text(); }, 7000, 200);
}
