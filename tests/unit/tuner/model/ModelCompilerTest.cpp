// A whole model tuned on this machine's CPU, in a worker.
#include "ImportedModel.h"
#include "TemporaryFolder.h"

#include "tuner/model/ModelCompiler.h"
#include "tuner/model/PlannedBench.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kfuse;
using namespace kfuse::tuner;

namespace {

/// Full effort with little time, by a store of its own.
struct Tuned {
  explicit Tuned(ImportedModel &model)
      : opened(std::move(
            *openAndPlan(*model.get().module, {.target = "cpu",
                                               .store = (folder.path / "store.db").string(),
                                               .threads = 1,
                                               .device = 0,
                                               .measureOn = {},
                                               .requireTuned = false,
                                               .warn = [this](const std::string &line) { warned += line; }}))) {}

  CompiledModel compile() {
    TuneOptions options;
    options.effort = Effort::Full;
    options.secondsPerKernel = 1;
    Result<CompiledModel> compiled = compileModel(opened.planned, opened.bench.context(std::move(options)));
    REQUIRE_MESSAGE(compiled, compiled.error().message);
    return std::move(*compiled);
  }

  test::TemporaryFolder folder;
  std::string warned;
  PlannedBench opened;
};

} // namespace

TEST_CASE("compileModel: what is chosen by the whole run is in the program, the report and the store") {
  for (const char *name : {"gpt2_tiny.mlir", "llama_tiny_decode.mlir"}) { // The latter reads positions and a cache.
    CAPTURE(std::string(name));
    ImportedModel model(exampleModel(name));
    REQUIRE(model);
    Tuned tuned(model);
    const CompiledModel compiled = tuned.compile();
    CHECK(tuned.warned.empty());
    // Whether kernels come near each other is for the machine to say.
    MESSAGE("tried in the whole run: ", compiled.report.endToEnd ? compiled.report.endToEnd->tried : 0);
    Store &store = *tuned.opened.bench.store;
    std::vector<runtime::CompiledKernel> stored;
    for (const KernelReport &kernel : compiled.report.kernels) {
      std::optional<Choice> choice = store.findChoice(kernel.region);
      REQUIRE(choice);
      CHECK(choice->config.str() == kernel.config);
      REQUIRE(choice->timing);
      CHECK(choice->timing->medianUs == kernel.measuredUs);
      std::optional<runtime::CompiledKernel> binary = store.findBinary(choice->kernel);
      REQUIRE(binary);
      stored.push_back(std::move(*binary));
    }
    for (const runtime::ProgramKernel &kernel : compiled.main.kernels)
      CHECK(std::ranges::any_of(stored, [&](const auto &binary) { return binary.image == kernel.binary.image; }));

    const CompiledModel again = tuned.compile(); // Nothing is new.
    CHECK_FALSE(again.report.endToEnd);
    CHECK(again.main == compiled.main);
  }
}
