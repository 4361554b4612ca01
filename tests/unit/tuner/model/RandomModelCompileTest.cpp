// Random models planned for GPUs that are not here, and the kernels of some through NVRTC.
#include "ImportedModel.h"
#include "RandomAttention.h"
#include "RandomModels.h"

#include "codegen/cuda/text/DeviceLibrary.h"
#include "runtime/Device.h"
#include "tests/Skip.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <span>

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// The models of tests/gpu/RandomModelGpuTest.cpp, where they run.
constexpr unsigned first = 5000;
/// The first seed of the models of attention; tests/emulation has some of them, too.
constexpr unsigned firstAttention = 7000;

/// Null where there is no NVRTC, which the test says.
std::unique_ptr<runtime::KernelCompiler> compilerHere() {
  Result<std::unique_ptr<runtime::KernelCompiler>> compiler = runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
  codegen::KernelPlan trivial;
  trivial.name = "f", trivial.target = "sm_90a", trivial.source = "__global__ void f() {}";
  if (compiler && (*compiler)->compile(trivial))
    return std::move(*compiler);
  kfuse::testing::skip("no NVRTC here");
  return nullptr;
}

/// The first choice for each kernel of a model.
std::vector<codegen::KernelPlan> printed(const tuner::PlannedModel &planned) {
  std::vector<codegen::KernelPlan> plans;
  for (const tuner::PlannedKernel &kernel : planned.kernels) {
    auto candidates = kernel.kernelTemplate->candidates(kernel.region, *planned.target);
    REQUIRE_FALSE(candidates.empty());
    auto plan = kernel.kernelTemplate->emit(kernel.region, candidates.front(), *planned.target);
    REQUIRE_MESSAGE(plan, plan.error().message);
    plans.push_back(std::move(*plan));
  }
  return plans;
}

void compileAll(std::span<const codegen::KernelPlan> plans, runtime::KernelCompiler &compiler) {
  for (const codegen::KernelPlan &plan : plans) {
    auto binary = compiler.compile(plan);
    CHECK_MESSAGE(binary, binary.error().message);
  }
}

bool holdsAttention(const tuner::PlannedKernel &kernel) { return kernel.region.attention() != nullptr; }

/// How many models a test looks at: KFUSE_SEEDS, or so many.
unsigned seedCount(unsigned otherwise) {
  const char *given = std::getenv("KFUSE_SEEDS");
  return given ? static_cast<unsigned>(std::atoi(given)) : otherwise;
}

} // namespace

TEST_CASE("random models: each region of each partition has a template, on every GPU") {
  for (const char *name : {"sm_80", "sm_90a"}) {
    const ir::Target &target = *ir::findTarget(name);
    OpByOp opByOp(target);
    for (unsigned seed = first; seed < first + 100; ++seed) {
      CAPTURE(name);
      CAPTURE(seed);
      ParsedModule parsed(modelForGpu(seed));
      REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
      auto fused = tuner::planModel(*parsed.module, target);
      CHECK_MESSAGE(fused, fused.error().message);
      auto apart = tuner::planModel(*parsed.module, opByOp, {.simplify = false});
      CHECK_MESSAGE(apart, apart.error().message);
    }
  }
}

TEST_CASE("random models: what codegen prints for them compiles") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  for (unsigned seed = first; seed < first + 16; ++seed) {
    CAPTURE(seed);
    ParsedModule parsed(modelForGpu(seed));
    auto planned = tuner::planModel(*parsed.module, *ir::findTarget("sm_90a"));
    REQUIRE_MESSAGE(planned, planned.error().message);
    compileAll(printed(*planned), *compiler);
  }
}

TEST_CASE("random attention: every kernel is printed, those that attend compile, and results stay what they were") {
  const auto compiler = compilerHere();
  int attending = 0;
  for (unsigned seed = firstAttention; seed < firstAttention + seedCount(40); ++seed) {
    const std::string text = RandomAttention(seed).text();
    CAPTURE(seed);
    CAPTURE(text);
    ParsedModule parsed(text);
    REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
    auto main = parsed.module->lookupSymbol<mlir::func::FuncOp>("main");
    const Arguments arguments = randomArguments(main, seed);
    for (const char *name : {"sm_80", "sm_90a"}) {
      CAPTURE(name);
      auto planned = tuner::planModel(*parsed.module, *ir::findTarget(name));
      REQUIRE_MESSAGE(planned, planned.error().message);
      attending += std::ranges::any_of(planned->kernels, holdsAttention) ? 1 : 0;
      const std::vector<codegen::KernelPlan> plans = printed(*planned);
      for (std::size_t i = 0; i < plans.size(); ++i)
        if (compiler && seed % 3 == 0 && holdsAttention(planned->kernels[i])) // Others take half a second each, too.
          compileAll({&plans[i], 1}, *compiler);
      checkSame(evaluateModel(*planned->module, arguments), evaluate(main, arguments), 1e-3);
    }
  }
  CHECK(attending > 0);
}

TEST_CASE("normalised queries of an ONNX file: kernels of every GPU compile") {
  const auto compiler = compilerHere();
  ImportedModel model(testData("decode_q_norm.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  for (const ir::Target &target : ir::knownTargets()) {
    if (target.isCpu())
      continue;
    CAPTURE(target.name);
    auto planned = tuner::planModel(*model.get().module, target);
    REQUIRE_MESSAGE(planned, planned.error().message);
    CHECK(std::ranges::any_of(planned->kernels, holdsAttention));
    const std::vector<codegen::KernelPlan> plans = printed(*planned);
    if (compiler)
      compileAll(plans, *compiler);
  }
}
