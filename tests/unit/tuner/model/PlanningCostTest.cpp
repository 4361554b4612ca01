// What planning a whole model costs: a stack of Llama layers.
#include "Pace.h"

#include "examples/blocks/Blocks.h"
#include "ir/GraphModule.h"
#include "ir/Target.h"
#include "tuner/model/PlannedModel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <string>

using namespace kfuse;

namespace {

struct Planning {
  double seconds = 0;
  std::size_t kernels = 0, launches = 0;
};

Planning planned(const Result<Graph> &graph, const char *target) {
  REQUIRE(graph);
  Planning planning;
  mlir::ModuleOp module = graph->internals().module.get();
  std::clock_t start = std::clock(); // Processor time: what else the machine does is no matter.
  auto model = tuner::planModel(module, *ir::findTarget(target));
  planning.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
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
        byLayers[layers] = planning;
      }
      CHECK(byLayers[32].seconds < 2 * tuner::test::slowness());
      // Twice the layers take twice the time, up to what caches and the clock make of it.
      CHECK(byLayers[32].seconds < 3 * std::max(byLayers[16].seconds, 0.05));
      // What only the first or the last layer has, and nothing for each one more.
      CHECK(byLayers[32].kernels == byLayers[8].kernels);
      CHECK(byLayers[32].kernels <= byLayers[1].kernels + 4);
      CHECK(byLayers[32].launches - byLayers[16].launches == 16 * (byLayers[16].launches - byLayers[8].launches) / 8);
    }
}
