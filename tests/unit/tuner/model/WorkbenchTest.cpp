#include "ImportedModel.h"
#include "TemporaryFolder.h"
#include "tests/unit/tuner/search/SearchFakes.h"
#include "tests/unit/tuner/store/StoreRowsOf.h"

#include "tests/Skip.h"
#include "tuner/model/PlannedBench.h"
#include "tuner/record/Trace.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

using namespace kfuse;
using namespace kfuse::tuner;

namespace {

/// On one thread, with its store in a file of `folder`.
WorkbenchOptions optionsFor(const char *target, const test::TemporaryFolder &folder, const char *store = "store.db") {
  WorkbenchOptions options;
  options.target = target;
  options.store = (folder.path / store).string();
  options.threads = 1;
  return options;
}

/// Makes a choice for a target the newest of a store.
void choose(const WorkbenchOptions &options, const char *target) {
  Choice choice = test::choiceNumber(1);
  choice.target = target;
  (*Store::open(options.store, {}))->put(choice, test::binaryNumber(1));
}

Workbench mustOpen(const WorkbenchOptions &options) {
  Result<Workbench> bench = openWorkbench(options);
  REQUIRE_MESSAGE(bench, bench.error().message);
  return std::move(*bench);
}

} // namespace

TEST_CASE("workbench: peaks are measured only for who measures") {
  test::TemporaryFolder folder;
  const WorkbenchOptions options = optionsFor("cpu", folder);
  TuneOptions modelAlone, strict;
  modelAlone.effort = Effort::None;
  strict.requireTuned = true;
  Workbench bench = mustOpen(options);
  CHECK(bench.context(modelAlone).peaks == nominalPeaks(*ir::findTarget("cpu")));
  CHECK_FALSE(bench.context(strict).peaks.measured);
  CHECK_FALSE(bench.store->findPeaks(bench.device->sku()));
  CHECK(bench.context({}).peaks.measured);
  CHECK(bench.store->findPeaks(bench.device->sku()));
  CHECK(mustOpen(options).context(strict).peaks.measured); // From the store.
}

TEST_CASE("workbench: for who requires tuned kernels no store is made, and none is changed") {
  test::TemporaryFolder folder;
  WorkbenchOptions options = optionsFor("cpu", folder, "deep/store.db");
  options.requireTuned = true;
  CHECK(mustOpen(options).store->problem());
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("workbench: its threads compile for a GPU, whether it is here or not") {
  test::TemporaryFolder folder;
  test::Script script;
  const ir::Target *cpu = ir::findTarget("cpu"), *gpu = ir::findTarget("sm_80");
  for (const ir::Target *target : {cpu, gpu}) {
    Workbench bench;
    bench.target = target;
    bench.compiler = std::make_unique<test::FakeCompiler>(script);
    bench.store = std::move(*Store::open(folder.path / "store.db", {}));
    bench.threads = 3;
    CHECK(bench.context({}).options.compileThreads == (target == gpu ? 3 : 0));
  }
}

TEST_CASE("workbench: where no driver is installed a model is planned once, whatever the store's newest choice is") {
  if (runtime::hasCudaDriver())
    return kfuse::testing::skip("a driver is installed");
  test::TemporaryFolder folder;
  const WorkbenchOptions options = optionsFor("auto", folder);
  choose(options, "sm_90a");
  ImportedModel model(exampleModel("ffn_tiny.mlir"));
  REQUIRE(model);
  Trace trace;
  CHECK(openAndPlan(*model.get().module, options));
  const std::string path = (folder.path / "trace.json").string();
  REQUIRE(trace.write(path));
  std::ifstream file(path);
  const std::string events{std::istreambuf_iterator<char>(file), {}};
  CHECK(events.find("\"detail\":\"cpu\"") != std::string::npos);
  CHECK(events.find("\"detail\":\"sm_90a\"") == std::string::npos);
}

TEST_CASE("workbench: a model is planned for its target, whatever was expected before the driver had started") {
  test::TemporaryFolder folder;
  WorkbenchOptions options = optionsFor("auto", folder);
  ImportedModel model(exampleModel("ffn_tiny.mlir"));
  REQUIRE(model);
  for (const char *last :
       {"", "cpu", "sm_80", "sm_90a", "sm_1"}) { // The target of the store's newest choice; none at first.
    CAPTURE(std::string(last));
    if (*last) {
      choose(options, last);
      CHECK((*Store::open(options.store, {}))->newest().target == last);
    }
    Result<PlannedBench> opened = openAndPlan(*model.get().module, options);
    REQUIRE_MESSAGE(opened, opened.error().message);
    CHECK(opened->bench.target->name == (*resolveTarget("auto"))->name);
    CHECK(*opened->planned.target == *opened->bench.target);
  }
  for (const char *name : {"cpu", "sm_80", "sm_90a"}) {
    options.target = name;
    Result<PlannedBench> opened = openAndPlan(*model.get().module, options);
    if (!opened) {
      kfuse::testing::skip(std::string("planning for ") + name + ": " + opened.error().message);
      CHECK(name != std::string("cpu"));
      continue;
    }
    CHECK(opened->planned.target->name == name);
    CHECK(opened->planned.kernels.front().kernelTemplate->name().starts_with(name == std::string("cpu") ? "cpu."
                                                                                                        : "cuda."));
  }
  options.target = "sm_1";
  CHECK(openAndPlan(*model.get().module, options).error().code == ErrorCode::Usage);
}
