// What planning a whole model costs: a stack of Llama layers.
#include "examples/blocks/Blocks.h"
#include "ir/GraphModule.h"
#include "ir/Target.h"
#include "tuner/model/PlannedModel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

using namespace kfuse;

namespace {

struct Planning {
  double seconds = 0;
  std::size_t ops = 0, kernels = 0, launches = 0;
};

Planning planned(const Result<Graph> &graph, const char *target) {
  REQUIRE(graph);
  Planning planning;
  mlir::ModuleOp module = graph->internals().module.get();
  module.walk([&](mlir::Operation *) { ++planning.ops; });
  auto start = std::chrono::steady_clock::now();
  auto model = tuner::planModel(module, *ir::findTarget(target));
  planning.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  REQUIRE_MESSAGE(model, model.error().message);
  planning.kernels = model->kernels.size();
  for (const tuner::PlannedKernel &kernel : model->kernels)
    planning.launches += static_cast<std::size_t>(kernel.uses);
  return planning;
}

} // namespace

TEST_CASE("a Llama of 32 layers is planned in 2 s, near linearly, and its layers share kernels") {
  using Build = Result<Graph> (*)(std::int64_t layers);
  const Build builds[] = {[](std::int64_t layers) { return examples::llamaDecode(1, 4096, {}, DType::BF16, layers); },
                          [](std::int64_t layers) { return examples::llamaPrefill(1, 1024, {}, DType::BF16, layers); }};
  for (Build build : builds)
    for (const char *target : {"sm_90a", "cpu"}) {
      CAPTURE(std::string(target));
      std::map<std::int64_t, Planning> byLayers;
      for (std::int64_t layers : {1, 8, 16, 32}) {
        Planning planning = planned(build(layers), target);
        std::printf("%s %lld layers: %zu ops, %.3f s, %zu launches of %zu kernels\n", target,
                    static_cast<long long>(layers), planning.ops, planning.seconds, planning.launches,
                    planning.kernels);
        byLayers[layers] = planning;
      }
      CHECK(byLayers[32].seconds < 2);
      // Twice the layers take twice the time; three times allows for a busy machine.
      CHECK(byLayers[32].seconds < 3 * std::max(byLayers[16].seconds, 0.1));
      // What only the first or the last layer has, and nothing for each one more.
      CHECK(byLayers[32].kernels == byLayers[8].kernels);
      CHECK(byLayers[32].kernels <= byLayers[1].kernels + 4);
      CHECK(byLayers[32].launches - byLayers[16].launches == 16 * (byLayers[16].launches - byLayers[8].launches) / 8);
    }
}
