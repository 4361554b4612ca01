// How long it takes to begin when the store holds every kernel: what a process pays before its first run.
#include "ImportedModel.h"
#include "Pace.h"
#include "TemporaryFolder.h"

#include "runtime/Program.h"
#include "tuner/model/ModelCompiler.h"
#include "tuner/model/Workbench.h"
#include "tuner/record/Key.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace kfuse;
using namespace kfuse::tuner;
using test::fastest;

namespace {

/// Limits are three times what a kernel and a block may take on a machine of the speed of Pace.h; SLACK=1 tests them as
/// they are.
double slack() {
  const char *given = std::getenv("SLACK");
  return (given ? std::atof(given) : 3) * test::slowness();
}

Workbench openCpu(const std::string &store, bool requireTuned) {
  Result<Workbench> bench = openWorkbench({.target = "cpu",
                                           .store = store,
                                           .threads = 2,
                                           .device = 0,
                                           .measureOn = {},
                                           .requireTuned = requireTuned,
                                           .warn = {}});
  REQUIRE_MESSAGE(bench, bench.error().message);
  return std::move(*bench);
}

/// From the file to programs, with the configs that the cost model prefers.
CompiledModel compile(const std::string &file, Workbench &bench, bool requireTuned) {
  ImportedModel imported(file);
  REQUIRE_MESSAGE(imported, imported.error());
  Result<PlannedModel> planned = planModel(*imported.get().module, *bench.target, true);
  REQUIRE_MESSAGE(planned, planned.error().message);
  TuneOptions options;
  options.effort = Effort::None;
  options.requireTuned = requireTuned;
  Result<CompiledModel> compiled = compileModel(*planned, bench.context(std::move(options)));
  REQUIRE_MESSAGE(compiled, compiled.error().message);
  return std::move(*compiled);
}

} // namespace

TEST_CASE("warm start: a kernel is loaded from the store in 5 ms, a whole block in 100 ms") {
  test::TemporaryFolder folder;
  const std::string store = (folder.path / "store.db").string();
  const double kernelMs = 5 * slack(), blockMs = 100 * slack();
  for (const char *name : {"ffn_tiny.mlir", "llama_tiny_decode.mlir", "llama_block_prefill_s128.mlir"}) {
    CAPTURE(std::string(name));
    const std::string file = exampleModel(name);
    Workbench bench = openCpu(store, false);
    const CompiledModel cold = compile(file, bench, false);

    std::unique_ptr<runtime::Device> device = std::move(*bench.openHere());
    for (const runtime::ProgramKernel &kernel : cold.main.kernels) {
      const std::string key = tuningKey(kernel.plan, bench.compiler->version(), device->sku());
      CHECK(fastest(kernelMs, [&] {
              std::optional<runtime::CompiledKernel> binary = bench.store->findBinary(key);
              REQUIRE(binary);
              REQUIRE(device->load(kernel.plan, *binary));
            }) < kernelMs);
    }

    CHECK(fastest(blockMs, [&] {
            Workbench warm = openCpu(store, true);
            std::unique_ptr<runtime::Device> here = std::move(*warm.openHere());
            const CompiledModel compiled = compile(file, warm, true);
            REQUIRE(runtime::makeContext(compiled.main, *here));
          }) < blockMs);
  }
}

TEST_CASE("warm start: each of the nine blocks is planned for sm_90a in 50 ms") {
  struct Block {
    std::string file;
    std::vector<std::string> parameters;
  };
  const std::string benched = "../../bench/blocks/";
  const std::vector<std::string> fixed{"*weight*", "*bias*"};
  const double planMs = 50 * slack();
  for (const auto &[file, parameters] : std::vector<Block>{{"linear_head_b256.onnx", fixed},
                                                           {"stacked_heads_b256.onnx", {"w_*", "b_*", "out"}},
                                                           {"seqlen_head_b256.onnx", fixed},
                                                           {"ln_gelu_2048x4096.onnx", fixed},
                                                           {"ffn_2048x4096.onnx", fixed},
                                                           {benched + "llama_block_decode_b1_kv4096.mlir", {}},
                                                           {benched + "llama_block_decode_b32_kv4096.mlir", {}},
                                                           {"llama_block_prefill_s1024.onnx", {"*weight*"}},
                                                           {benched + "llama_block_prefill_s4096.mlir", {}}}) {
    CAPTURE(file);
    ImportedModel model(exampleModel(file), {.shapes = {}, .parameters = parameters});
    REQUIRE_MESSAGE(model, model.error());
    CHECK(fastest(planMs, [&] {
            Result<PlannedModel> planned = planModel(*model.get().module, *ir::findTarget("sm_90a"));
            REQUIRE_MESSAGE(planned, planned.error().message);
          }) < planMs);
  }
}
