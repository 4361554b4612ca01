// What templates emit compiles, for every architecture and mostly without spills.
#include "codegen/cuda/Templates.h"
#include "tests/golden/CompileHarness.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>

using namespace kfuse;
using namespace kfuse::test;

TEST_CASE("Compile: chains of products, without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  const codegen::KernelTemplate &chain = codegen::cuda::chainTemplate();
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  std::vector<TemplateCase> cases{layers(20, 0, 256, 1024, 2, true, "bf16"), layers(2, 5, 256, 1024, 64, false, "f16")};
  for (unsigned seed = 0; seed < 24; ++seed) // Those of the GPU tests.
    cases.push_back(randomChain(seed));
  std::vector<codegen::KernelPlan> all;
  for (const TemplateCase &source : cases) {
    INFO(source.name);
    RegionCase given(source);
    ir::FusionDecision decision = chain.match(given.region, hopper);
    REQUIRE_MESSAGE(decision, decision.reason());
    const std::vector<codegen::TileConfig> configs = chain.candidates(given.region, hopper);
    REQUIRE(!configs.empty());
    for (std::size_t i = all.size() % 8; i < configs.size(); i += 1 + configs.size() / 2)
      all.push_back(planOf(chain, given.region, configs[i], hopper, source.name));
  }
  const codegen::KernelTemplate &rowChain = codegen::cuda::rowChainTemplate();
  for (const TemplateCase &source :
       {normedLayers(20, 32768, 1024, true, "bf16"), normedLayers(2, 4000, 456, false, "f16"),
        scaledLayers(3, 1300, 512, "bf16"), scaledLayers(2, 67, 200, "f16")}) {
    INFO(source.name);
    RegionCase given(source);
    ir::FusionDecision decision = rowChain.match(given.region, hopper);
    REQUIRE_MESSAGE(decision, decision.reason());
    for (const codegen::TileConfig &config : rowChain.candidates(given.region, hopper))
      all.push_back(planOf(rowChain, given.region, config, hopper, source.name));
  }
  compileAll(all, *compiler);
}

TEST_CASE("Compile: reductions of windows, without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  for (const TemplateCase &given : largeSlidingCases())
    compileAll(everyPair(codegen::cuda::windowsTemplate(), given), *compiler);
}

TEST_CASE(
    "Compile: every transposition of rows that begin anywhere, with indices of 32 and of 64 bits, without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  // From and to rows of every distance, modulo a chunk and modulo a line; over 2^31 elements the last ones.
  for (const auto &[rows, columns] :
       {std::pair{8191, 16383}, {1001, 1003}, {8190, 1012}, {8192, 16385}, {46341, 46351}})
    for (const char *type : {"bf16", "f32"}) {
      const std::string from = std::to_string(rows) + "x" + std::to_string(columns) + "x" + type,
                        to = std::to_string(columns) + "x" + std::to_string(rows) + "x" + type;
      const TemplateCase moved{"moved " + from,
                               "func.func @f(%a: tensor<" + from + ">) -> tensor<" + to +
                                   "> { %0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (tensor<" + from +
                                   ">) -> tensor<" + to + "> return %0 : tensor<" + to + "> }"};
      const TemplateCase computed{"gelu of " + from,
                                  "func.func @f(%a: tensor<" + from + ">) -> tensor<" + to +
                                      "> { %0 = kfuse.gelu %a : (tensor<" + from + ">) -> tensor<" + from +
                                      "> %1 = kfuse.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<" + from +
                                      ">) -> tensor<" + to + "> return %1 : tensor<" + to + "> }"};
      for (const TemplateCase &given : {moved, computed})
        compileAll(everyPair(codegen::cuda::transposeTemplate(), given), *compiler);
    }
}

TEST_CASE("Compile: configs of every template, for sm_80, sm_90a and sm_100a, of most without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  std::vector<codegen::KernelPlan> all, maySpill, attentions; // The latter two count what they hold alone.
  auto add = [&](const TemplateCase &source, const char *target, std::size_t ofProduct, std::size_t ofOther) {
    INFO(source.name << " on " << target);
    RegionCase given(source);
    const bool isProduct = source.name.find("matmul") != std::string::npos;
    const bool isFlash = source.name.starts_with("flash_") || source.name.starts_with("cache_");
    std::ranges::move(plans(given.region, *ir::findTarget(target), isProduct ? ofProduct : ofOther),
                      std::back_inserter(isProduct ? maySpill
                                         : isFlash ? attentions
                                                   : all));
  };
  for (const TemplateCase &source : representatives()) {
    add(source, "sm_80", 3, 2);
    add(source, "sm_90a", 1, 6); // "every schedule of products" has more configs of those.
    add(source, "sm_100a", 3, 2);
  }
  compileAll(all, *compiler);
  compileAll(maySpill, *compiler, Spills::Allowed);
  const std::size_t spilled = compileAll(attentions, *compiler, Spills::Allowed);
  // Today none of 40.
  CHECK_MESSAGE(spilled <= attentions.size() / (isExhaustive() ? 10 : 40),
                spilled << " of " << attentions.size() << " kernels of attention spill");
}

TEST_CASE("Compile: norms of heads in decode attention, those of Qwen3 for every GPU and without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  std::vector<codegen::KernelPlan> all;
  auto add = [&](const TemplateCase &source, const std::string &target, std::size_t count) {
    INFO(source.name << " on " << target);
    RegionCase given(source);
    for (codegen::KernelPlan &plan : plans(given.region, *ir::findTarget(target), count))
      all.push_back(std::move(plan));
  };
  for (const TemplateCase &source : decodeNormCases())
    for (const codegen::KernelPlan &plan : plans(RegionCase(source).region, *ir::findTarget("sm_90a"), 1)) {
      auto kernel = compiler->compile(plan);
      CHECK_MESSAGE(kernel, kernel.error().message);
    }
  for (const std::string &target : knownGpus())
    add(modelDecodeCases().front(), target, 3);
  compileAll(all, *compiler);
}

TEST_CASE("Compile: attention of many rows in heads of every size, of which few spill on any GPU") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  const codegen::KernelTemplate &flash = codegen::cuda::flashAttentionTemplate();
  std::map<std::string, std::vector<codegen::KernelPlan>> ofTarget;
  auto add = [&](const FlashSketch &sketch, const std::string &target, std::size_t count) {
    const TemplateCase source = flashCase(sketch);
    INFO(source.name << " on " << target);
    RegionCase given(source);
    const ir::Target &on = *ir::findTarget(target);
    ir::FusionDecision decision = flash.match(given.region, on);
    REQUIRE_MESSAGE(decision, decision.reason());
    std::ranges::move(spread(flash, given.region, on, count), std::back_inserter(ofTarget[target]));
  };
  for (int size : {64, 128, 256})
    add({.heads = 32, .keyHeads = 8, .rows = 4096, .keys = 4096, .keySize = size, .valueSize = size, .mask = "causal"},
        "sm_90a", 7);
  add({.heads = 32, .keyHeads = 8, .rows = 4096, .keys = 4096, .keySize = 128, .valueSize = 128}, "sm_90a", 4);
  for (int size : {32, 40, 72, 80, 96, 104, 160, 192, 224})
    add({.heads = 32, .keyHeads = 8, .rows = 2048, .keys = 2048, .keySize = size, .valueSize = size, .mask = "causal"},
        "sm_90a", 2);
  add({.rows = 1024, .keys = 1500, .keySize = 192, .valueSize = 128, .mask = "added"}, "sm_90a", 3);
  add({.rows = 1024, .keys = 1500, .keySize = 64, .valueSize = 64, .mask = "added", .tokensFirst = true}, "sm_90a", 3);
  add({.rows = 1024, .keys = 1024, .keySize = 256, .valueSize = 256, .mask = "causal", .isCapped = true}, "sm_90a", 3);
  add({.rows = 1024, .keys = 1024, .keySize = 128, .valueSize = 128, .mask = "added", .hasSink = true}, "sm_90a", 3);
  add({.rows = 1024, .keys = 1024, .mask = "chosen", .isGuarded = true}, "sm_90a", 3);
  // Windows of an image, several of which a block takes.
  for (const char *target : {"sm_80", "sm_90a", "sm_120a"})
    add({.batch = 1024,
         .heads = 16,
         .keyHeads = 16,
         .rows = 49,
         .keys = 49,
         .keySize = 32,
         .valueSize = 32,
         .mask = "bias"},
        target, 3);
  add({.batch = 512, .heads = 16, .keyHeads = 16, .rows = 64, .keys = 64}, "sm_90a", 2);
  add({.rows = 1024, .keys = 1024, .mask = "bounded", .isGuarded = true}, "sm_90a", 3);
  const FlashSketch computed{.heads = 32, .keyHeads = 8, .rows = 1024, .keys = 1024, .mask = "causal", .front = "norm"};
  for (int size : {64, 72, 128, 256}) {
    FlashSketch sketch = computed;
    sketch.keySize = sketch.valueSize = size;
    add(sketch, "sm_90a", 3);
  }
  add(computed, "sm_80", 3);
  for (const char *target : {"sm_80", "sm_100a"}) {
    add({.rows = 1024, .keys = 1024, .keySize = 256, .valueSize = 256, .mask = "added", .hasSink = true}, target, 2);
    add({.rows = 1024, .keys = 1024, .keySize = 160, .valueSize = 160, .mask = "bounded"}, target, 2);
    add({.heads = 32, .keyHeads = 8, .rows = 4096, .keys = 4096, .keySize = 128, .valueSize = 128, .mask = "causal"},
        target, 4);
  }
  for (const auto &[target, plans] : ofTarget) {
    const std::size_t spilled = compileAll(plans, *compiler, Spills::Allowed);
    // A search compiles these for nothing.
    CHECK_MESSAGE(spilled <= std::max<std::size_t>(1, plans.size() / (isExhaustive() ? 10 : 40)),
                  target << ": " << spilled << " of " << plans.size() << " spill");
  }
}

TEST_CASE("Compile: a search of causal attention finds a config among its first ones that does not spill, on any GPU") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  const codegen::KernelTemplate &flash = codegen::cuda::flashAttentionTemplate();
  const TemplateCase source = flashCase(
      {.heads = 32, .keyHeads = 8, .rows = 4096, .keys = 4096, .keySize = 128, .valueSize = 128, .mask = "causal"});
  const RegionCase given(source);
  for (const std::string &target : knownGpus()) {
    const ir::Target &on = *ir::findTarget(target);
    std::vector<codegen::TileConfig> configs = flash.candidates(given.region, on);
    REQUIRE_MESSAGE(!configs.empty(), target);
    configs.resize(std::min<std::size_t>(configs.size(), 8)); // A quick search's.
    // With NVRTC 13.0 the first of sm_80 and the first two of sm_100a and sm_103a spill.
    const auto works = std::ranges::find_if(configs, [&](const codegen::TileConfig &config) {
      return compileAll({planOf(flash, given.region, config, on, source.name)}, *compiler, Spills::Allowed) == 0;
    });
    CHECK_MESSAGE(works != configs.end(), target << ": all of the first " << configs.size() << " spill");
  }
}

TEST_CASE("Compile: a kernel marks its moments where it is asked to") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  for (const TemplateCase &source : representatives()) {
    INFO(source.name);
    codegen::KernelPlan plan = plans(RegionCase(source).region, *ir::findTarget("sm_90a"), 1).front();
    plan.options.insert(plan.options.end(),
                        {"--define-macro=KFUSE_MARKS=0x7f0000000000ull", "--define-macro=KFUSE_MARK_SLOTS=4u"});
    auto kernel = compiler->compile(plan);
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    CHECK(kernel->assembly.find("%globaltimer") != std::string::npos); // Others have none: compileAll().
  }
}
