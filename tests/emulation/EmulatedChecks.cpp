#include "tests/emulation/EmulatedChecks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

namespace kfuse::test {

const ir::Target &hopper() { return *ir::findTarget("sm_90a"); }

ir::Target hopperOf(int multiprocessors) {
  ir::Target target = hopper();
  target.multiprocessors = multiprocessors;
  return target;
}

/// A few configs spread over a template's space: the first, the last, and some between.
static std::vector<codegen::TileConfig> sample(const std::vector<codegen::TileConfig> &all, std::size_t count) {
  std::vector<codegen::TileConfig> chosen;
  for (std::size_t i = 0; i < std::min(count, all.size()); ++i)
    chosen.push_back(all[i * (all.size() - 1) / std::max<std::size_t>(1, std::min(count, all.size()) - 1)]);
  return chosen;
}

Emulated emulate(const codegen::KernelTemplate &kernel, const RegionCase &given, const codegen::TileConfig &config,
                 const ir::Target &target) {
  Result<codegen::KernelPlan> plan = kernel.emit(given.region, config, target);
  REQUIRE_MESSAGE(plan, plan.error().message);
  Result<EmulatedKernel> emulated = EmulatedKernel::compile(*plan);
  REQUIRE_MESSAGE(emulated, emulated.error().message << "\n" << plan->source);
  return {std::move(*plan), std::move(*emulated)};
}

void check(const RegionCase &given, const std::vector<reference::HostTensor> &inputs, Oracle &oracle,
           const codegen::KernelTemplate &kernel, const codegen::TileConfig &config, const ir::Target &target) {
  INFO("config " << config.str());
  const Emulated emulated = emulate(kernel, given, config, target);
  const std::string &source = emulated.plan.source;
  std::vector<reference::HostTensor> before;
  for (Copies copies : {Copies::Early, Copies::Late}) {
    auto outputs = emulated.kernel.run(inputs, given.states(), copies);
    REQUIRE_MESSAGE(outputs, outputs.error().message << "\n" << source);
    for (const reference::Verdict &verdict : oracle.judge(*outputs))
      CHECK_MESSAGE(verdict.right, verdict.message << "\n" << source);
    CHECK_MESSAGE((before.empty() || before == *outputs), "another order of threads gives other bits");
    before = std::move(*outputs);
  }
  for (int multiprocessors : {target.multiprocessors / 2, target.multiprocessors * 3 / 4})
    if (std::optional<EmulatedKernel> elsewhere = emulated.kernel.on(multiprocessors)) {
      auto outputs = elsewhere->run(inputs, given.states(), Copies::Early);
      REQUIRE_MESSAGE(outputs, outputs.error().message << "\n" << source);
      CHECK_MESSAGE(before == *outputs, "other bits on " << multiprocessors << " multiprocessors");
    }
}

void checkAll(const std::vector<TemplateCase> &cases, const codegen::KernelTemplate &kernel, std::size_t configs) {
  const char *only = std::getenv("KFUSE_CASE");
  for (const TemplateCase &source : cases) {
    if (only && source.name != only)
      continue;
    INFO(source.name);
    RegionCase given(source);
    ir::FusionDecision decision = kernel.match(given.region, hopper());
    REQUIRE_MESSAGE(decision, decision.reason());
    std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    std::vector<codegen::TileConfig> chosen = sample(kernel.candidates(given.region, hopper()), configs);
    if (chosen.empty())
      chosen = sample(kernel.candidates(given.region, *ir::findTarget("sm_80")), configs);
    REQUIRE_FALSE(chosen.empty());
    for (const codegen::TileConfig &config : chosen)
      check(given, inputs, oracle, kernel, config);
  }
}

} // namespace kfuse::test
