// Candidates that go wrong in every way, really compiled and really run, in a worker on the CPU.
#include "ChildProcess.h"
#include "FaultyKernels.h"
#include "TemporaryFolder.h"

#include "runtime/worker/RemoteDevice.h"
#include "tuner/record/Key.h"
#include "tuner/search/Tuner.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <utility>

using namespace kfuse;
using namespace kfuse::tuner;
using kfuse::tuner::test::faultyPlan;
using kfuse::tuner::test::faultyTask;
using kfuse::tuner::test::Flaw;
using kfuse::tuner::test::functionsOf;
using kfuse::tuner::test::killWorkers;

namespace {

TuningTask taskOf(const std::vector<Flaw> &flaws) { return faultyTask(flaws, faultyPlan); }

struct Fixture {
  Result<TunedKernel> tuneOne(const TuningTask &task) {
    const ir::Target &target = *ir::findTarget("cpu");
    TuningContext context{target, *compiler, device.get(), *store, nominalPeaks(target), {}};
    context.options.secondsPerKernel = 60; // Little of it is used, however busy the machine.
    Result<std::vector<TunedKernel>> kernels = tune(context, std::span(&task, 1));
    if (!kernels)
      return kernels.error();
    return std::move(kernels->front());
  }

  std::optional<Measurement> rowOf(Flaw flaw) {
    return store->findMeasurement(tuningKey(faultyPlan(flaw), compiler->version(), device->sku()));
  }
  std::string failureOf(Flaw flaw) {
    std::optional<Measurement> row = rowOf(flaw);
    return row && row->failure ? fmt(*row->failure) : "none";
  }
  static std::string fmt(const Failure &failure) {
    return std::string(toString(failure.kind)) + ": " + failure.message;
  }

  test::TemporaryFolder folder;
  std::unique_ptr<Store> store = std::move(*Store::open(folder.path / "store.db", {}));
  std::unique_ptr<runtime::KernelCompiler> compiler = runtime::makeCpuCompiler();
  std::unique_ptr<runtime::Device> device = runtime::makeRemoteDevice(runtime::cpuFacts(2), {"cpu", "2"});
};

} // namespace

TEST_CASE("search: candidates that crash, hang, overrun or lie are rows with their reasons, and the good one wins") {
  Fixture f;
  Result<TunedKernel> kernel = f.tuneOne(taskOf({Flaw::Slow, Flaw::Crash, Flaw::CompileError, Flaw::Overrun, Flaw::Hang,
                                                 Flaw::InputWrite, Flaw::WrongResult, Flaw::None}));
  REQUIRE(kernel);
  CHECK(kernel->report.config == "id=7");
  CHECK(kernel->report.failed == 6);
  CHECK(f.failureOf(Flaw::Crash) == "crash: the worker process ended with signal 11 (Segmentation fault) in launch");
  CHECK(f.failureOf(Flaw::CompileError).substr(0, 8) == "compile:");
  CHECK(f.failureOf(Flaw::Overrun) == "overrun: wrote behind the end of output 0");
  CHECK(f.failureOf(Flaw::Hang) == "timeout: launch took more than 1 s and was ended");
  CHECK(f.failureOf(Flaw::InputWrite) == "overrun: wrote into input 0");
  CHECK(f.failureOf(Flaw::WrongResult).substr(0, 13) == "wrong result:");
  CHECK(f.failureOf(Flaw::Slow) == "none");
  CHECK(f.rowOf(Flaw::Slow)->timing->medianUs > 10 * f.rowOf(Flaw::None)->timing->medianUs);
}

TEST_CASE("search: a first candidate that crashes, and a device that is lost for good") {
  Fixture f;
  Result<TunedKernel> kernel = f.tuneOne(taskOf({Flaw::Crash, Flaw::None}));
  REQUIRE(kernel);
  CHECK(kernel->report.config == "id=1");

  Fixture lost;
  TuningTask task = taskOf({Flaw::Slow, Flaw::Crash, Flaw::None});
  const std::string worker = std::getenv("KFUSE_WORKER");
  functionsOf(task).onCheck = [check = functionsOf(task).onCheck](const HostBuffers &inputs, const ReadOutput &read) {
    setenv("KFUSE_WORKER", "/no/such/worker", 1); // From the first check on no worker can be started.
    return check(inputs, read);
  };
  Result<TunedKernel> ended = lost.tuneOne(task);
  setenv("KFUSE_WORKER", worker.c_str(), 1);
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == ErrorCode::NoDevice);
  CHECK(ended.error().message.find("the device was lost with id=1 of double") == 0);
  CHECK(lost.rowOf(Flaw::Slow)->timing);
  CHECK(lost.failureOf(Flaw::Crash).substr(0, 6) == "crash:");
  Result<TunedKernel> next = lost.tuneOne(taskOf({Flaw::Slow, Flaw::Crash, Flaw::None}));
  REQUIRE(next);
  CHECK(next->report.config == "id=2");
}

TEST_CASE("search: a worker that is killed while no candidate runs is replaced, and blames none") {
  Fixture f;
  TuningTask task = taskOf({Flaw::Slow, Flaw::None});
  SUBCASE("before the search") {
    REQUIRE(f.device->synchronize(nullptr));
    CHECK(killWorkers() == 1);
  }
  SUBCASE("as the operands are made") {
    functionsOf(task).onMakeInputs = [make = functionsOf(task).onMakeInputs, isFirst = true]() mutable {
      if (std::exchange(isFirst, false))
        CHECK(killWorkers() == 1);
      return make();
    };
  }
  SUBCASE("as the oracle evaluates") {
    functionsOf(task).onExpect = [](const HostBuffers &) {
      CHECK(killWorkers() == 1);
      return Result<void>();
    };
  }
  Result<TunedKernel> kernel = f.tuneOne(task);
  REQUIRE_MESSAGE(kernel, kernel.error().message);
  CHECK(kernel->report.config == "id=1");
  CHECK(kernel->report.failed == 0);
}

TEST_CASE("search: a device that is lost for good while no candidate runs is an error that blames none") {
  Fixture f;
  TuningTask task = taskOf({Flaw::Slow, Flaw::None});
  const std::string worker = std::getenv("KFUSE_WORKER");
  functionsOf(task).onMakeInputs = [make = functionsOf(task).onMakeInputs] {
    setenv("KFUSE_WORKER", "/no/such/worker", 1);
    CHECK(killWorkers() == 1);
    return make();
  };
  Result<TunedKernel> ended = f.tuneOne(task);
  setenv("KFUSE_WORKER", worker.c_str(), 1);
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == ErrorCode::NoDevice);
  CHECK(ended.error().message == "the device was lost while no candidate of double ran: no worker process to measure "
                                 "in: /no/such/worker does not start: No such file or directory; what was measured is "
                                 "kept: run again to go on");
  CHECK_FALSE(f.rowOf(Flaw::Slow));
}
