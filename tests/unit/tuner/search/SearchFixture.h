// A search over a script of candidates: a store, a device and a compiler that do as it says.
#pragma once

#include "SearchFakes.h"
#include "TemporaryFolder.h"

#include "tuner/record/Key.h"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>

namespace kfuse::tuner::test {

/// Measured peaks by which the task is bound by its copy, to 10 us.
inline Peaks boundOfTenUs() {
  return {.readBytesPerUs = 1e9,
          .writeBytesPerUs = 1e9,
          .copyBytesPerUs = 8 * elements / 10.0,
          .f32Burst = 1e9,
          .f32Sustained = 1e9,
          .halfBurst = 1e9,
          .halfSustained = 1e9,
          .launchUs = 1,
          .measured = true};
}

/// By those peaks a config that takes `us` at least, for what its tiles read from the cache.
inline codegen::TileWork leastWorkOf(double us) { return {0, 4 * boundOfTenUs().readBytesPerUs * us}; }

/// A fresh store, a device and a compiler over one script.
struct Fixture {
  explicit Fixture(Script script) : script(std::move(script)) { reopen(); }

  /// Begins anew, as another process would.
  void reopen() {
    store.reset();
    store = std::move(*Store::open(folder.path / "store.db", {}));
    compiler.compiled = 0;
    device.measured = 0;
    device.order.clear();
    device.isLost = false;
  }

  Result<TunedKernel> tuneOne() {
    const ir::Target &target = *ir::findTarget(targetName);
    options.log = [&](const std::string &line) { log += line + "\n"; };
    TuningContext context{target, compiler, isPresent ? &device : nullptr, *store, peaks, options};
    TuningTask task = makeTask(script, sourceSuffix);
    functionsOf(task).onLeastWork = leastWork;
    if (!signature.empty())
      task.signature = signature;
    Result<std::vector<TunedKernel>> kernels = tune(context, std::span(&task, 1));
    if (!kernels)
      return kernels.error();
    return std::move(kernels->front());
  }

  /// The report of a kernel that has to be found.
  KernelReport tuned() {
    Result<TunedKernel> kernel = tuneOne();
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    return kernel->report;
  }

  std::optional<Measurement> rowOf(int id) {
    codegen::KernelPlan plan = *makeTask(script).space->emit({{"id", id}});
    return store->findMeasurement(tuningKey(plan, compiler.version(), device.sku()));
  }

  std::string failureOf(int id) { return std::string(toString(rowOf(id)->failure->kind)); }

  TemporaryFolder folder;
  Script script;
  FakeCompiler compiler{script};
  FakeDevice device{script};
  std::unique_ptr<Store> store;
  TuneOptions options;
  std::string sourceSuffix; ///< A change of the template.
  std::string signature;    ///< Another region's.
  std::string targetName = "sm_80";
  bool isPresent = true;
  Peaks peaks = nominalPeaks(*ir::findTarget("sm_80"));
  std::function<codegen::TileWork(const codegen::TileConfig &)> leastWork;
  std::string log;
};

/// FakeDevice::slownessOfVisit of visits that take so long, of which the device tells nothing.
inline std::function<double(int)> visitsTaking(double seconds) {
  return [seconds](int) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return 1;
  };
}

inline std::string stopOf(const KernelReport &kernel) { return std::string(toString(kernel.stop)); }

} // namespace kfuse::tuner::test
