// What a search makes of candidates that are wrong, write where they may not, or cannot be judged.
#include "SearchFixture.h"

#include "tuner/check/GuardedBuffer.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

TEST_CASE("search: the fastest candidate that is right wins and every failure is a row") {
  Fixture f({{0, {.us = 50}},
             {1, {.us = 1, .fault = Fault::AllWrong}},
             {2, {.us = 1, .fault = Fault::CompileError}},
             {3, {.us = 20}},
             {4, {.us = 1, .fault = Fault::LaunchError}},
             {5, {.us = 1, .fault = Fault::Unwritten}},
             {6, {.us = 1, .fault = Fault::Overrun}},
             {7, {.us = 1, .spillBytes = 8}}});
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=3");
  CHECK(kernel.measuredUs == 20);
  CHECK(kernel.candidates == 8);
  CHECK(kernel.failed == 6);
  CHECK(kernel.cut == 0);
  CHECK_FALSE(kernel.fromCache);
  CHECK(f.rowOf(0)->timing->medianUs == 50);
  CHECK(f.failureOf(1) == "wrong result");
  CHECK(f.rowOf(1)->failure->message == "output 0: differs from the first right candidate by 0.5, 1e-05 is allowed");
  CHECK(f.failureOf(2) == "compile");
  CHECK(f.rowOf(2)->failure->message == "line 1: no");
  CHECK(f.failureOf(4) == "launch");
  CHECK(f.rowOf(5)->failure->message == "output 0: element 4095 of 4096 was never written");
  CHECK(f.failureOf(6) == "overrun");
  CHECK(f.failureOf(7) == "spill");
}

TEST_CASE("search: results are judged alike whether the device sums their differences or the host does") {
  for (bool sums : {true, false}) {
    CAPTURE(sums);
    Fixture f({{0, {.us = 1, .fault = Fault::Unwritten}},
               {1, {.us = 20}},
               {2, {.us = 1, .fault = Fault::AllWrong}},
               {3, {.us = 1, .fault = Fault::OneWrong}},
               {4, {.us = 1, .fault = Fault::Unwritten}}});
    f.device.sumsDifferences = sums;
    CHECK(f.tuned().config == "id=1");
    CHECK(f.rowOf(2)->failure->message == "output 0: differs from the first right candidate by 0.5, 1e-05 is allowed");
    CHECK(f.failureOf(3) == "wrong result");
    for (int unwritten : {0, 4})
      CHECK(f.rowOf(unwritten)->failure->message == "output 0: element 4095 of 4096 was never written");
    Fixture right({{0, {.us = 20}}, {1, {.us = 21}}});
    right.device.sumsDifferences = sums;
    REQUIRE(right.tuneOne());
    CHECK(right.device.mostDownloaded == (sums ? GuardedBuffer::guardBytes : elements * sizeof(float)));
  }
}

TEST_CASE("search: the oracle judges the first candidate") {
  Fixture f({{0, {.us = 1, .fault = Fault::AllWrong}}, {1, {.us = 20}}});
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
  CHECK(f.rowOf(0)->failure->message == "element 0 is off");
}

TEST_CASE("search: a kernel that no candidate computes right ends with a wrong result, not with a compiler's error") {
  Fixture f({{0, {.us = 1, .fault = Fault::AllWrong}}, {1, {.us = 20, .fault = Fault::CompileError}}});
  CHECK(f.tuneOne().error().code == ErrorCode::WrongResult);
  Fixture g({{0, {.us = 1, .fault = Fault::CompileError}}, {1, {.us = 20, .fault = Fault::AllWrong}}});
  CHECK(g.tuneOne().error().code == ErrorCode::Compile);
}

TEST_CASE("search: one wrong element that the oracle overlooks is found by comparison") {
  Fixture f({{0, {.us = 20}}, {1, {.us = 1, .fault = Fault::OneWrong}}});
  CHECK(f.tuned().config == "id=0");
  CHECK(f.failureOf(1) == "wrong result");
}

TEST_CASE(
    "search: a first candidate that is wrong where the oracle did not look does not convict those that are right") {
  Fixture f({{0, {.us = 1, .fault = Fault::OneWrong}}, {1, {.us = 20}}, {2, {.us = 22}}});
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
  CHECK(kernel.failed == 1);
  CHECK(f.failureOf(0) == "wrong result"); // Checked again before the finals.
  CHECK(f.rowOf(2)->timing);
}

TEST_CASE("search: candidates that are wrong in different places do not win by being first") {
  Fixture f({{0, {.us = 1, .fault = Fault::OneWrong}}, {1, {.us = 2, .fault = Fault::AllWrong}}, {2, {.us = 20}}});
  CHECK(f.tuned().config == "id=2");
  CHECK(f.failureOf(0) == "wrong result");
  CHECK(f.failureOf(1) == "wrong result");
}

TEST_CASE("search: a first candidate from the store that a finalist finds wrong does not win") {
  Fixture f({{0, {.us = 18}}, {1, {.us = 20}}, {2, {.us = 23}}});
  REQUIRE(f.tuneOne());
  f.script[0].fault = Fault::OneWrong; // The process before was killed before it was found wrong.
  f.options.effort = Effort::Full;
  f.reopen();
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
  CHECK(f.failureOf(0) == "wrong result");
  CHECK(std::count(f.device.order.begin(), f.device.order.end(), 23) > 0); // Within 20 % of the right one.
}

TEST_CASE("search: what a wrong candidate ruled out is tried once it is found wrong") {
  // The one of 16 us, which could not be faster than 15.
  const Behaviour wrong{.us = 10.2, .fault = Fault::OneWrong}, slow{.us = 20}, best{.us = 16};
  for (const Script &script : {Script{{0, wrong}, {1, slow}, {2, best}}, Script{{0, wrong}, {1, best}, {2, slow}}}) {
    Fixture f(script);
    f.peaks = boundOfTenUs();
    f.leastWork = [&](const codegen::TileConfig &config) {
      return leastWorkOf(script.at(static_cast<int>(config["id"])).us == best.us ? 15 : 0);
    };
    double toldUs = 0;
    f.options.progress = [&](const Progress &progress) { toldUs = progress.bestUs; };
    const KernelReport kernel = f.tuned();
    CHECK(kernel.measuredUs == best.us);
    CHECK(toldUs == best.us);
    CHECK(kernel.failed == 1);
    CHECK(kernel.candidates == 3);
    CHECK(kernel.ruledOut == 0);
    CHECK(stopOf(kernel) == "exhausted");
  }
}

TEST_CASE("search: a reference that is lost with the device is no wrong one, and nobody is checked again for it") {
  Fixture f({{0, {.us = 20}}, {1, {.us = 1, .fault = Fault::Overrun}}, {2, {.us = 30}}, {3, {.us = 40}}});
  REQUIRE(f.tuneOne());
  CHECK(f.device.launched == std::vector<double>{20, 1, 30, 40});
  Fixture restarted(f.script);
  restarted.device.canRestart = true;
  REQUIRE(restarted.tuneOne());
  CHECK(restarted.device.launched == std::vector<double>{20, 1, 30, 40, 20}); // The finalist, in its new worker.
}

TEST_CASE("search: the reference leaves the device where a workspace needs its room") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}, {2, {.us = 1, .fault = Fault::OneWrong}}});
  constexpr std::size_t outputBytes = elements * sizeof(float), guards = 2 * GuardedBuffer::guardBytes;
  constexpr std::size_t small = 64, large = small + outputBytes / 2;
  f.device.roomBytes = 2 * (outputBytes + guards) + small + guards + outputBytes + 1024;
  TuningTask task = makeTask(f.script);
  functionsOf(task).onEmit = [emit = functionsOf(task).onEmit](const codegen::TileConfig &config) {
    Result<codegen::KernelPlan> plan = emit(config);
    plan->workspaceBytes = config["id"] == 1 ? large : small;
    return plan;
  };
  TuningContext context{*ir::findTarget("sm_80"), f.compiler, &f.device, *f.store, f.peaks, f.options};
  Result<std::vector<TunedKernel>> kernels = tune(context, std::span(&task, 1));
  REQUIRE_MESSAGE(kernels, kernels.error().message);
  CHECK(kernels->front().report.config == "id=1");
  CHECK(kernels->front().report.failed == 1);
  CHECK(f.device.mostDownloaded == outputBytes);
}

TEST_CASE("search: a candidate that writes into the reference is an overrun, and the next ones are judged without") {
  Fixture f({{0, {.us = 20}}, {1, {.us = 1, .fault = Fault::ReferenceWrite}}, {2, {.us = 30}}});
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=0");
  CHECK(kernel.failed == 1);
  CHECK(f.rowOf(1)->failure->message == "wrote into what the first right candidate gave as output 0");
}

TEST_CASE("search: each of two outputs is compared, wherever its reference lies") {
  const Behaviour right{.us = 20}, slow{.us = 30}, wrong{.us = 1, .fault = Fault::OneWrong};
  constexpr std::size_t outputBytes = elements * sizeof(float), guards = 2 * GuardedBuffer::guardBytes;
  constexpr std::size_t bench = 3 * (outputBytes + guards) + 64 + guards + 1024; // Sums of differences included.
  for (const Script &script : {Script{{0, right}, {1, wrong}, {2, slow}}, Script{{0, wrong}, {1, right}, {2, slow}}})
    for (std::size_t references : {2, 1, 0}) {
      CAPTURE(references);
      Fixture f(script);
      f.device.roomBytes = bench + references * outputBytes;
      TuningTask task = makeTask(f.script);
      functionsOf(task).onEmit = [emit = functionsOf(task).onEmit](const codegen::TileConfig &config) {
        Result<codegen::KernelPlan> plan = emit(config);
        plan->outputs.push_back(plan->outputs.front());
        plan->inPlace.push_back(-1);
        return plan;
      };
      std::vector<std::pair<std::size_t, std::int64_t>> sampled{{0, 0}, {1, 0}};
      functionsOf(task).onCheckAlso = [&](const HostBuffers &, std::size_t output,
                                          const std::vector<std::int64_t> &more) {
        for (std::int64_t element : more)
          sampled.emplace_back(output, element);
        return Result<void>();
      };
      functionsOf(task).onCheck = [&](const HostBuffers &, const ReadOutput &read) -> Result<void> {
        for (const auto &[output, element] : sampled) {
          float y = 0;
          const auto at = static_cast<std::size_t>(element);
          if (Result<void> done = read(output, at * sizeof y, std::as_writable_bytes(std::span(&y, 1))); !done)
            return done;
          if (y != 2 * (1 + static_cast<float>(at % 7)))
            return Error{ErrorCode::WrongResult, "off"};
        }
        return {};
      };
      TuningContext context{*ir::findTarget("sm_80"), f.compiler, &f.device, *f.store, f.peaks, f.options};
      Result<std::vector<TunedKernel>> kernels = tune(context, std::span(&task, 1));
      REQUIRE_MESSAGE(kernels, kernels.error().message);
      CHECK(kernels->front().report.measuredUs == 20);
      CHECK(kernels->front().report.failed == 1);
      CHECK(sampled.back().first == 1);
    }
}

TEST_CASE("search: an output that is a state's is written in the state's place, which each candidate finds as it was") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}, {2, {.us = 1, .fault = Fault::OneWrong}}, {3, {.us = 40}}});
  TuningTask task = makeTask(f.script);
  task.stateOf = {0};
  TuningContext context{*ir::findTarget("sm_80"), f.compiler, &f.device, *f.store, f.peaks, f.options};
  Result<std::vector<TunedKernel>> kernels = tune(context, std::span(&task, 1));
  REQUIRE_MESSAGE(kernels, kernels.error().message);
  CHECK(kernels->front().report.config == "id=1");
  CHECK(kernels->front().report.failed == 1);
}

TEST_CASE("search: semaphores must be left zero") {
  Fixture f({{0, {.us = 1, .fault = Fault::SemaphoresLeftSet}}, {1, {.us = 20}}});
  CHECK(f.tuned().config == "id=1");
  CHECK(f.failureOf(0) == "overrun");
}
