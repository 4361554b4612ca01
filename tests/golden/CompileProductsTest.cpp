// Every schedule of matrix products compiles; what a search tries first does not spill.
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/matmul/MatmulProblem.h"
#include "codegen/cuda/matmul/MatmulVariant.h"
#include "tests/golden/CompileHarness.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// Products that fill Hopper, with the epilogues that hold most registers, in both layouts.
std::vector<TemplateCase> hopperCases() {
  return {{"bias_gelu_residual", R"(
func.func @f(%a: tensor<8192x8192xbf16>, %b: tensor<8192x8192xbf16>, %c: tensor<8192xbf16>, %d: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %1 = kfuse.add %0, %c : (tensor<8192x8192xbf16>, tensor<8192xbf16>) -> tensor<8192x8192xbf16>
  %2 = kfuse.gelu %1 : (tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %3 = kfuse.add %2, %d : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %3 : tensor<8192x8192xbf16>
})"},
          {"bias_residual_through_tma", R"(
func.func @f(%a: tensor<8192x8192xbf16>, %b: tensor<8192x8192xbf16>, %c: tensor<8192xbf16>, %d: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %1 = kfuse.add %0, %c : (tensor<8192x8192xbf16>, tensor<8192xbf16>) -> tensor<8192x8192xbf16>
  %2 = kfuse.add %1, %d : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %2 : tensor<8192x8192xbf16>
})"},
          {"bias_relu_through_tma", R"(
func.func @f(%a: tensor<8192x8192xbf16>, %b: tensor<8192x8192xbf16>, %c: tensor<8192xbf16>) -> tensor<8192x8192xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %1 = kfuse.add %0, %c : (tensor<8192x8192xbf16>, tensor<8192xbf16>) -> tensor<8192x8192xbf16>
  %2 = kfuse.relu %1 : (tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %2 : tensor<8192x8192xbf16>
})"},
          {"causal_scores", R"(
func.func @f(%a: tensor<8x4096x128xbf16>, %b: tensor<8x4096x128xbf16>) -> tensor<8x4096x4096xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<8x4096x128xbf16>, tensor<8x4096x128xbf16>) -> tensor<8x4096x4096xbf16>
  %1 = kfuse.iota {dim = 1 : i64} : tensor<1x4096xi32>
  %2 = kfuse.iota {dim = 0 : i64} : tensor<4096x1xi32>
  %3 = kfuse.le %1, %2 : (tensor<1x4096xi32>, tensor<4096x1xi32>) -> tensor<4096x4096xi1>
  %4 = kfuse.constant dense<0xFF80> : tensor<bf16>
  %5 = kfuse.where %3, %0, %4 : (tensor<4096x4096xi1>, tensor<8x4096x4096xbf16>, tensor<bf16>) -> tensor<8x4096x4096xbf16>
  return %5 : tensor<8x4096x4096xbf16>
})"},
          {"odd_both_transposed", R"(
func.func @f(%a: tensor<1000x1000xf16>, %b: tensor<1000x2008xf16>) -> tensor<1000x2008xf32> {
  %0 = kfuse.matmul %a, %b {transpose_a} : (tensor<1000x1000xf16>, tensor<1000x2008xf16>) -> tensor<1000x2008xf16>
  %1 = kfuse.cast %0 : (tensor<1000x2008xf16>) -> tensor<1000x2008xf32>
  return %1 : tensor<1000x2008xf32>
})"}};
}

/// Products whose rows a cluster holds, with the most values of a row beside the sums.
std::vector<TemplateCase> wholeRowCases() {
  return {{"bias_layer_norm_relu", R"(
func.func @f(%a: tensor<32768x1024xbf16>, %b: tensor<1024x1024xbf16>, %c: tensor<1024xbf16>, %d: tensor<1024xbf16>, %e: tensor<1024xbf16>) -> tensor<32768x1024xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<32768x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<32768x1024xbf16>
  %1 = kfuse.add %0, %c : (tensor<32768x1024xbf16>, tensor<1024xbf16>) -> tensor<32768x1024xbf16>
  %2 = "kfuse.layer_norm"(%1, %d, %e) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<32768x1024xbf16>, tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<32768x1024xbf16>
  %3 = kfuse.relu %2 : (tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16>
  return %3 : tensor<32768x1024xbf16>
})"},
          largeRowProductCases("f16").back(),
          rowProductCases("bf16").back()};
}

/// Products that do not fill Hopper.
std::vector<TemplateCase> fewTileCases() {
  return {{"bias_residual_16_rows", R"(
func.func @f(%a: tensor<16x4096xbf16>, %b: tensor<4096x4096xbf16>, %c: tensor<4096xbf16>, %d: tensor<16x4096xbf16>) -> tensor<16x4096xbf16> {
  %0 = kfuse.matmul %a, %b : (tensor<16x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<16x4096xbf16>
  %1 = kfuse.add %0, %c : (tensor<16x4096xbf16>, tensor<4096xbf16>) -> tensor<16x4096xbf16>
  %2 = kfuse.add %1, %d : (tensor<16x4096xbf16>, tensor<16x4096xbf16>) -> tensor<16x4096xbf16>
  return %2 : tensor<16x4096xbf16>
})"},
          {"few_tiles", R"(
func.func @f(%a: tensor<250x1024xf16>, %b: tensor<1000x1024xf16>) -> tensor<250x1000xf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<250x1024xf16>, tensor<1000x1024xf16>) -> tensor<250x1000xf16>
  return %0 : tensor<250x1000xf16>
})"},
          {"deep_in_k", R"(
func.func @f(%a: tensor<556x8192xbf16>, %b: tensor<2048x8192xbf16>) -> tensor<556x2048xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<556x8192xbf16>, tensor<2048x8192xbf16>) -> tensor<556x2048xbf16>
  return %0 : tensor<556x2048xbf16>
})"},
          {"shared_rows", R"(
func.func @f(%a: tensor<320x1024xbf16>, %b: tensor<2048x1024xbf16>, %c: tensor<2048xbf16>) -> tensor<320x2048xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<320x1024xbf16>, tensor<2048x1024xbf16>) -> tensor<320x2048xbf16>
  %1 = kfuse.add %0, %c : (tensor<320x2048xbf16>, tensor<2048xbf16>) -> tensor<320x2048xbf16>
  %2 = kfuse.relu %1 : (tensor<320x2048xbf16>) -> tensor<320x2048xbf16>
  return %2 : tensor<320x2048xbf16>
})"}};
}

/// All configs of a variant's space for a product, those that it does not offer included.
std::vector<codegen::EstimatedConfig> spaceOf(const codegen::cuda::MatmulVariant &variant,
                                              const codegen::Region &region, const ir::Target &target) {
  ir::FusionDecision decision = variant.match(region, target);
  REQUIRE_MESSAGE(decision, decision.reason());
  return variant.space(region, *codegen::cuda::MatmulProblem::of(region), target);
}

/// All configs that differ in the order of their tiles alone are one.
codegen::TileConfig withoutOrder(const codegen::TileConfig &config) {
  return config.has("swizzle") ? config.with("swizzle", 1).with("swizzle_n", 0) : config;
}

/// The configs of a variant's space for several products, pairwise, the product being one more field; but for the order
/// of its tiles, which is two numbers of the same text.
std::vector<codegen::KernelPlan> everySchedule(const codegen::cuda::MatmulVariant &variant,
                                               const std::vector<TemplateCase> &products,
                                               const char *target = "sm_90a") {
  const ir::Target &on = *ir::findTarget(target);
  std::vector<codegen::TileConfig> configs;
  std::map<codegen::TileConfig, codegen::TileConfig> inSpace;
  for (std::size_t i = 0; i < products.size(); ++i) {
    INFO(products[i].name);
    const RegionCase given(products[i]);
    for (const auto &[us, config] : spaceOf(variant, given.region, on)) {
      const codegen::TileConfig one = withoutOrder(config).with("product", static_cast<std::int64_t>(i));
      if (inSpace.emplace(one, config).second)
        configs.push_back(one);
    }
  }
  configs = pairwise(std::move(configs));
  std::vector<codegen::KernelPlan> plans;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const RegionCase given(products[i]);
    for (const codegen::TileConfig &config : configs)
      if (config["product"] == static_cast<std::int64_t>(i))
        plans.push_back(planOf(variant, given.region, inSpace.at(config), on, products[i].name));
  }
  return plans;
}

/// The configs that a search tries first, but for the order of their tiles.
std::vector<codegen::KernelPlan> firstChoices(const codegen::KernelTemplate &source, const TemplateCase &given,
                                              std::size_t count) {
  const ir::Target &target = *ir::findTarget("sm_90a");
  const RegionCase region(given);
  INFO(given.name);
  std::vector<codegen::EstimatedConfig> ranked = source.estimated(region.region, target);
  std::ranges::sort(ranked, [](const codegen::EstimatedConfig &a, const codegen::EstimatedConfig &b) {
    return std::tie(a.us, a.config) < std::tie(b.us, b.config);
  });
  std::set<codegen::TileConfig> seen;
  std::vector<codegen::KernelPlan> plans;
  for (const auto &[us, config] : ranked)
    if (plans.size() < count && seen.insert(withoutOrder(config)).second)
      plans.push_back(planOf(source, region.region, config, target, given.name));
  return plans;
}

/// The product of pairwiseProducts() of that name.
TemplateCase productOf(const std::string &name, int m, int n, int k) {
  const std::vector<TemplateCase> products = pairwiseProducts(m, n, k);
  const auto found = std::ranges::find(products, name, &TemplateCase::name);
  REQUIRE(found != products.end());
  return *found;
}

} // namespace

TEST_CASE("Compile: every schedule of products, every pair of its values") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  using namespace codegen::cuda;
  compileAll(everySchedule(matmulSm90Template(), hopperCases()), *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulSm90Template(), wholeRowCases()), *compiler, Spills::Allowed);
  // Rows whose half, third or quarter is a multiple of eight: of that height a tile is theirs alone.
  std::vector<TemplateCase> fewTiles = fewTileCases();
  for (int rows : {272, 336, 368})
    fewTiles.push_back(productOf("gelu_residual_tb_bf16", rows, 4096, 4096));
  fewTiles.push_back(productOf("bias_residual_tb_tf32", 304, 4096, 4096));
  compileAll(everySchedule(matmulSm90SplitTemplate(), fewTiles), *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulStreamTemplate(),
                           {pairwiseProducts(4, 4096, 4096).front(), pairwiseProducts(16, 4096, 4096).front()}),
             *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulLowBitsTemplate(), {lowBitProduct(1, 4096, 4096, 128, "ui4", "bf16"),
                                                     lowBitProduct(16, 4096, 4096, 32, "i8", "f16")}),
             *compiler, Spills::Allowed);
  const std::vector<TemplateCase> lowBits = {lowBitProduct(256, 4096, 4096, 128, "ui4", "bf16"),
                                             lowBitProduct(100, 4096, 4096, 32, "i8", "f16")};
  compileAll(everySchedule(matmulSm90SplitTemplate(), lowBits), *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulSm90LowBitsTemplate(), lowBits), *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulSm80Template(), lowBits, "sm_80"), *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulSm80Template(), {productOf("bias_residual_tb_bf16", 4096, 4096, 4096)}, "sm_80"),
             *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulSimtTemplate(), {productOf("bias_residual_tb_tf32", 256, 512, 4096)}), *compiler,
             Spills::Allowed);
  std::vector<TemplateCase> fewRows = normedRowCases("bf16");
  fewRows.push_back(productOf("bias_residual_tb_bf16", 2, 4096, 4096));
  compileAll(everySchedule(gemvTemplate(), fewRows), *compiler, Spills::Allowed);
}

TEST_CASE("Compile: every search finds configs among its first ones that do not spill") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  constexpr std::size_t first = 8; // A quick search's.
  std::vector<TemplateCase> cases = hopperCases();
  for (std::vector<TemplateCase> more : {fewTileCases(), wholeRowCases()})
    std::ranges::move(more, std::back_inserter(cases));
  cases.push_back(productOf("gelu_residual_tb_bf16", 304, 4096, 4096));
  cases.push_back(productOf("bias_residual_tb_tf32", 384, 4096, 4096));
  cases.push_back(productOf("bias_residual_tb_bf16", 2, 4096, 4096));
  cases.push_back(pairwiseProducts(16, 4096, 4096).front());
  for (int rows : {1, 64, 256, 4096})
    cases.push_back(lowBitProduct(rows, 4096, 4096, 128, "ui4", "bf16"));
  std::size_t spilled = 0;
  for (const TemplateCase &given : cases) {
    const std::vector<codegen::KernelPlan> plans = firstChoices(codegen::cuda::matmulTemplate(), given, first);
    const std::size_t ofCase = compileAll(plans, *compiler, Spills::Allowed);
    INFO(given.name << ": " << ofCase << " of " << plans.size());
    CHECK(2 * ofCase <= plans.size());
    spilled += ofCase;
  }
  // docs/tuning.md says what they cost.
  MESSAGE("of the first choices for " << cases.size() << " products " << spilled << " spill");
  CHECK(spilled <= cases.size());
}

TEST_CASE("Compile: every pair of a type, a layout and an epilogue in every variant") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  using namespace codegen::cuda;
  std::vector<codegen::KernelPlan> all;
  // Configs all over the space of a variant that takes the product.
  auto add = [&](const std::vector<TemplateCase> &cases, const codegen::KernelTemplate &variant, const char *target,
                 std::size_t count) {
    for (const TemplateCase &source : cases) {
      RegionCase given(source);
      const ir::Target &on = *ir::findTarget(target);
      if (!variant.match(given.region, on))
        continue;
      std::vector<codegen::TileConfig> configs = variant.candidates(given.region, on);
      const std::size_t taken = std::min(count, configs.size());
      for (std::size_t i = 0; i < taken; ++i)
        all.push_back(planOf(variant, given.region,
                             configs[i * (configs.size() - 1) / std::max<std::size_t>(1, taken - 1)], on, source.name));
    }
  };
  add(pairwiseProducts(4096, 4096, 4096), matmulSm90Template(), "sm_90a", 2);
  add(pairwiseProducts(32, 4096, 4096), matmulSm90SplitTemplate(), "sm_90a", 2);
  add(pairwiseProducts(512, 1024, 1000), matmulSm80Template(), "sm_80", 1);
  add(pairwiseProducts(512, 1024, 1000), matmulSm80Template(), "sm_100a", 1);
  add(pairwiseProducts(16, 4096, 4096), matmulStreamTemplate(), "sm_90a", 2);
  add(pairwiseProducts(16, 4096, 4096), matmulStreamTemplate(), "sm_80", 1);
  add({lowBitProduct(1, 4096, 4096, 128, "ui4", "bf16"), lowBitProduct(16, 4096, 4096, 32, "i8", "f16")},
      matmulLowBitsTemplate(), "sm_90a", 2);
  add({lowBitProduct(1, 4096, 4096, 128, "ui4", "bf16")}, matmulLowBitsTemplate(), "sm_80", 1);
  const std::vector<TemplateCase> lowBits = {lowBitProduct(256, 4096, 4096, 128, "ui4", "bf16"),
                                             lowBitProduct(100, 4096, 4096, 32, "i8", "f16")};
  add(lowBits, matmulSm90SplitTemplate(), "sm_90a", 2);
  add(lowBits, matmulSm90LowBitsTemplate(), "sm_90a", 2);
  for (const char *target : {"sm_80", "sm_89", "sm_100a", "sm_120a"})
    add(lowBits, matmulSm80Template(), target, 1);
  add(pairwiseProducts(2, 4096, 4096), gemvTemplate(), "sm_90a", 1);
  compileAll(all, *compiler, Spills::Allowed);
}
