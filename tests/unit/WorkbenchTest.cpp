#include "SearchFakes.h"
#include "TemporaryFolder.h"

#include "tuner/model/Workbench.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::tuner;

namespace {

Workbench mustOpen(const WorkbenchOptions &options) {
  Result<Workbench> bench = openWorkbench(options);
  REQUIRE_MESSAGE(bench, bench.error().message);
  return std::move(*bench);
}

} // namespace

TEST_CASE("workbench: peaks are measured only for who measures") {
  test::TemporaryFolder folder;
  const WorkbenchOptions options{.target = "cpu",
                                 .store = (folder.path / "store.db").string(),
                                 .threads = 1,
                                 .device = 0,
                                 .measureOn = {},
                                 .requireTuned = false,
                                 .warn = {}};
  TuneOptions modelAlone, strict;
  modelAlone.effort = Effort::None;
  strict.requireTuned = true;
  Workbench bench = mustOpen(options);
  CHECK(bench.workshop(modelAlone).peaks == nominalPeaks(*ir::findTarget("cpu")));
  CHECK_FALSE(bench.workshop(strict).peaks.measured);
  CHECK_FALSE(bench.store->findPeaks(bench.device->sku()));
  CHECK(bench.workshop({}).peaks.measured);
  CHECK(bench.store->findPeaks(bench.device->sku()));
  CHECK(mustOpen(options).workshop(strict).peaks.measured); // From the store.
}

TEST_CASE("workbench: for who requires tuned kernels no store is made, and none is changed") {
  test::TemporaryFolder folder;
  const WorkbenchOptions options{.target = "cpu",
                                 .store = (folder.path / "deep/store.db").string(),
                                 .threads = 1,
                                 .device = 0,
                                 .measureOn = {},
                                 .requireTuned = true,
                                 .warn = {}};
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
    CHECK(bench.workshop({}).options.compileThreads == (target == gpu ? 3 : 0));
  }
}
