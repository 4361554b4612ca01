// Chains of kernels: what they are estimated at, and when they pay.
#include "CudaRegions.h"

#include "codegen/cuda/Templates.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kfuse;
using namespace kfuse::test;
using namespace kfuse::codegen::cuda;

TEST_CASE("CUDA templates: a row chain's first config has tiles of 128 rows, and each layer but the last saves time") {
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  auto best = [&](int count) {
    RegionCase given(normedLayers(count, 32768, 1024, true, "bf16"));
    return rowChainTemplate().estimated(given.region, hopper).front();
  };
  const codegen::EstimatedConfig two = best(2), four = best(4);
  CHECK(two.config["m"] == 128);
  CHECK(four.us < 2 * two.us);
}

TEST_CASE("CUDA templates: a chain of large layers of rows is worth 3 % of its layers' time, others only a quarter") {
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  auto profitabilityThreshold = [&](const TemplateCase &chain) {
    RegionCase given(chain);
    const codegen::KernelTemplate &source = *codegen::templateFor(given.region, hopper);
    return source.profitabilityThreshold(given.region, source.estimated(given.region, hopper).front().us);
  };
  CHECK(profitabilityThreshold(normedLayers(2, 32768, 1024, true, "bf16")) == 0.97);
  CHECK(profitabilityThreshold(normedLayers(2, 4096, 1024, true, "bf16")) == 0.75);
  CHECK(profitabilityThreshold(layers(2, 0, 256, 1024, 1024, true, "bf16")) == 0.75);
}

TEST_CASE("CUDA templates: a chain reads weights that its layers share again where they outgrow the last-level cache") {
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  auto sharing = [&](int batches, bool share) {
    const std::string x = "tensor<" + std::to_string(batches) + "x16x2048xbf16>",
                      w = "tensor<" + std::to_string(batches) + "x2048x2048xbf16>";
    std::string parameters, layers;
    for (int i = 0; i < 4; ++i) {
      const std::string number = std::to_string(i);
      parameters += ", %w" + number + ": " + w;
      layers += "%y" + std::to_string(i + 1) + " = kfuse.fused %y" + number + ", %w" + (share ? "0" : number) + " : (" +
                x + ", " + w + ") -> " + x + " {\n^bb0(%a: " + x + ", %b: " + w +
                "):\n%r = kfuse.matmul %a, %b {transpose_b} : (" + x + ", " + w + ") -> " + x +
                "\nkfuse.yield %r : " + x + "\n}\n";
    }
    return region("func.func @f(%y0: " + x + parameters + ") -> " + x + " {\n" + layers + "return %y4 : " + x + "\n}");
  };
  auto bestUs = [&](int batches, bool share) {
    return chainTemplate().estimated(sharing(batches, share).region, hopper).front().us;
  };
  CHECK(bestUs(8, true) == doctest::Approx(bestUs(8, false)));
  CHECK(bestUs(5, true) < bestUs(5, false)); // 42 of its 50 MB.
}
