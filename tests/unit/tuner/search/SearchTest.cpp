// When a search ends, what it passes over, and what it tells.
#include "SearchFixture.h"

#include "tuner/store/StoreFile.h"

#include <doctest/doctest.h>

#include <cmath>
#include <future>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

TEST_CASE("search: at the roof it ends once the first eight are tried, and says so in this run and the next") {
  Script script{{0, {.us = 50}}, {1, {.us = 10.2}}, {8, {.us = 10}}, {9, {.us = 10}}};
  for (int id = 2; id < 8; ++id)
    script[id] = {.us = 10.5};
  Fixture f(script);
  f.options.effort = Effort::Full;
  f.peaks = boundOfTenUs();
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
  CHECK(stopOf(kernel) == "roof");
  CHECK(kernel.candidates == 8);
  CHECK(kernel.ruledOut == 2);
  CHECK(kernel.bound.percent(*kernel.measuredUs) == doctest::Approx(98.04).epsilon(0.001));
  f.reopen();
  const KernelReport warm = f.tuned();
  CHECK(stopOf(warm) == "roof");
  CHECK(warm.ruledOut == 2);
}

TEST_CASE("search: whether one is found at 97 % of the bound or just below does not decide which wins") {
  for (double us : {10.2, 10.4}) {
    Fixture f({{0, {.us = us, .registers = 64}}, {1, {.us = us, .registers = 32}}, {2, {.us = us, .registers = 96}}});
    f.peaks = boundOfTenUs();
    const KernelReport kernel = f.tuned();
    CHECK(kernel.config == "id=1");
    CHECK(kernel.candidates == 3);
    CHECK(stopOf(kernel) == (us < 10.3 ? "roof" : "exhausted"));
  }
}

TEST_CASE("search: a first look that beats the region's bound rules nobody out") {
  Fixture f({{0, {.us = 10, .registers = 64}}, {1, {.us = 10.05, .registers = 32}}});
  f.peaks = boundOfTenUs();
  f.device.slownessOfVisit = [](int visit) { return visit == 0 ? 0.97 : 1; };
  const KernelReport kernel = f.tuned();
  CHECK(kernel.candidates == 2);
  CHECK(kernel.config == "id=1");
}

TEST_CASE("search: a bound within the tie of the fastest rules nobody out") {
  for (double us : {20.35, 20.45}) { // Ties are of 2 %.
    Fixture f({{0, {.us = 20, .registers = 64}}, {1, {.us = 20.35, .registers = 32}}});
    f.peaks = boundOfTenUs();
    f.leastWork = [&](const codegen::TileConfig &config) { return leastWorkOf(config["id"] == 1 ? us : 0); };
    const KernelReport kernel = f.tuned();
    CHECK(kernel.ruledOut == (us > 20.4 ? 1 : 0));
    CHECK(kernel.config == (us > 20.4 ? "id=0" : "id=1"));
  }
}

TEST_CASE("search: what could not win even at its own bound is never compiled") {
  Script script{{0, {.us = 30}}, {1, {.us = 20}}};
  for (int id = 2; id < 12; ++id)
    script[id] = {.us = 1};
  Fixture f(script);
  f.options.compileThreads = 1;
  f.compiler.beforeCompile = [&](int id) {
    while (id >= 2 && f.device.measured < 3) // The device is ahead of the compiler.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  f.peaks = {.readBytesPerUs = 1e9,
             .writeBytesPerUs = 1e9,
             .copyBytesPerUs = 1e9,
             .f32Burst = 1e3,
             .f32Sustained = 1e3,
             .halfBurst = 1e9,
             .halfSustained = 1e9,
             .launchUs = 1,
             .measured = true};
  f.leastWork = [](const codegen::TileConfig &config) {
    return codegen::TileWork{config["id"] < 2 ? elements : 1.2 * 25e3, 0}; // 25 us.
  };
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
  CHECK(stopOf(kernel) == "exhausted");
  CHECK(kernel.ruledOut == 6);
  CHECK(kernel.candidates == 2);
  CHECK(f.compiler.compiled <= 3);
  f.peaks.measured = false; // A datasheet proves nothing.
  f.sourceSuffix = "v2";
  CHECK(f.tuned().ruledOut == 0);
}

TEST_CASE("search: what ends it otherwise") {
  Script script;
  for (int id = 0; id < 9; ++id)
    script[id] = {.us = 10.0 + id};
  Fixture f(script);
  CHECK(stopOf(f.tuned()) == "candidates");
  f.script.erase(8);
  f.sourceSuffix = "v2";
  CHECK(stopOf(f.tuned()) == "exhausted");
  f.sourceSuffix = "v3";
  f.options.effort = Effort::None;
  f.isPresent = false;
  CHECK(stopOf(f.tuned()) == "none");
}

TEST_CASE("search: a time that beats a ceiling raises it, and the store says so") {
  Fixture f({{0, {.us = 9.5}}, {1, {.us = 30}}});
  f.peaks = boundOfTenUs();
  const KernelReport kernel = f.tuned();
  CHECK(kernel.bound.boundUs == doctest::Approx(9.5));
  std::optional<Peaks> raised = f.store->findPeaks("Fake GPU");
  REQUIRE(raised);
  CHECK(raised->copyBytesPerUs == doctest::Approx(8 * elements / 9.5));
  CHECK(raised->remark == "double: 9.5 us beats the copy bandwidth by 5.3 %: the ceiling is raised");
}

TEST_CASE("search: seconds for a whole model are shared, and every kernel still gets a config") {
  Script script;
  for (int id = 0; id < 8; ++id)
    script[id] = {.us = 50e3, .runSeconds = 0.05};
  Fixture f(script);
  f.options.seconds = 0.2;
  const KernelReport kernel = f.tuned();
  CHECK(stopOf(kernel) == "budget");
  CHECK(kernel.cut > 3);
}

TEST_CASE("search: the first guess of a kernel to come is compiled while this one is measured") {
  Script script;
  for (int id = 0; id < 12; ++id)
    script[id] = {.us = id == 10 ? 20.0 : 30 + id, .runSeconds = 1e-3};
  Fixture f(script);
  f.peaks.copyBytesPerUs = 8 * elements / 16.0; // A bound of 16 us.
  f.options.effort = Effort::Full;
  CHECK(f.tuned().config == "id=10"); // Not among quick's first eight.
  f.reopen();
  f.options.effort = Effort::Quick;
  f.options.compileThreads = 1;
  int guesses = 0, measuredAtLastGuess = 0, measuredAtSecond = 0;
  f.compiler.beforeCompile = [&](int id) {
    if (id == 10) {
      ++guesses;
      measuredAtLastGuess = f.device.measured;
    }
  };
  std::vector<TuningTask> tasks;
  for (std::string shape : {"2x2048", "1x4096"}) {
    tasks.push_back(makeTask(script, shape));
    tasks.back().signature = "mul f32 " + shape;
  }
  functionsOf(tasks[1]).onMakeInputs = [&, make = functionsOf(tasks[1]).onMakeInputs] {
    measuredAtSecond = f.device.measured;
    return make();
  };
  TuningContext context{*ir::findTarget("sm_80"), f.compiler, &f.device, *f.store, f.peaks, f.options};
  REQUIRE(tune(context, tasks));
  CHECK(guesses == 2);
  CHECK(measuredAtLastGuess < measuredAtSecond);
}

TEST_CASE("search: more effort looks further and keeps what is known") {
  Script script;
  for (int id = 0; id < 20; ++id)
    script[id] = {.us = 100.0 - 3 * id};
  Fixture f(script);
  const KernelReport quick = f.tuned();
  CHECK(quick.candidates == 8);
  CHECK(quick.config == "id=7");
  f.reopen();
  f.options.effort = Effort::Full;
  const KernelReport full = f.tuned();
  CHECK(full.candidates == 20);
  CHECK(full.config == "id=19");
  CHECK(f.compiler.compiled == 12);
  f.reopen();
  f.options.effort = Effort::Quick;
  CHECK(f.tuned().fromCache); // Less effort is content with more.
}

TEST_CASE("search: a budget never leaves a kernel without a config") {
  Script script;
  for (int id = 0; id < 20; ++id)
    script[id] = {.us = 100, .fault = id < 17 ? Fault::CompileError : Fault::None};
  Fixture f(script);
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=17");
  CHECK(kernel.failed == 17);
}

TEST_CASE("search: too little time cuts candidates and says so") {
  Script script;
  for (int id = 0; id < 8; ++id)
    script[id] = {.us = 50e3, .runSeconds = 0.05};
  Fixture f(script);
  f.options.secondsPerKernel = 0.2;
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config < "id=4"); // They take equally long, and little time is left to decide it.
  CHECK(kernel.candidates >= 1);
  CHECK(kernel.candidates < 4);
  CHECK(kernel.cut == 8 - kernel.candidates);
}

TEST_CASE("search: a run that takes far longer than the fastest is a timeout") {
  Fixture f({{0, {.us = 20}}, {1, {.us = 10, .runSeconds = 1.1}}});
  CHECK(f.tuned().config == "id=0");
  CHECK(f.failureOf(1) == "timeout");
}

TEST_CASE("search: a kernel that is slow beyond its budget is run once and kept") {
  Script script;
  for (int id = 0; id < 8; ++id)
    script[id] = {.us = 1, .runSeconds = 0.1};
  Fixture f(script);
  f.options.secondsPerKernel = 0.05;
  const KernelReport kernel = f.tuned();
  CHECK(f.device.measured == 0);
  CHECK(*kernel.measuredUs >= 1e5); // The check's own run.
  CHECK(kernel.candidates == 1);
  CHECK(kernel.cut == 7);
}

TEST_CASE("search: a candidate that spills wins only when nothing else works") {
  Fixture f({{0, {.us = 1, .fault = Fault::CompileError}}, {1, {.us = 20, .spillBytes = 16}}});
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
  CHECK(kernel.failed == 1);
}

TEST_CASE("search: what spills gives its place to the next in the ranking") {
  Script script;
  for (int id = 0; id < 24; ++id)
    script[id] = {.us = id == 10 ? 10.0 : 30.0};
  for (int id : {0, 3, 8}) // The last one in the place of the first.
    script[id].spillBytes = 8;
  script[11].us = 1; // Three have spilled, and three have come in.
  Fixture f(script);
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=10");
  CHECK(kernel.candidates == 11);
  CHECK(kernel.failed == 3);
  for (int id : {0, 3, 8})
    CHECK(f.failureOf(id) == "spill");
}

TEST_CASE("search: when nothing works the error names the kernel and the first reason") {
  Fixture f({{0, {.fault = Fault::CompileError}}, {1, {.fault = Fault::LoadError}}});
  Result<TunedKernel> kernel = f.tuneOne();
  REQUIRE_FALSE(kernel);
  CHECK(kernel.error().code == ErrorCode::Compile);
  CHECK(kernel.error().message ==
        "none of 2 candidates works for kernel double (mul): double with id=0: compile: line 1: no");
}

TEST_CASE("search: a kernel for which everything failed is tried again by the next run") {
  Fixture f({{0, {.us = 20, .fault = Fault::AllWrong}}, {1, {.us = 10, .fault = Fault::AllWrong}}});
  REQUIRE_FALSE(f.tuneOne());
  f.reopen();
  f.script[1].fault = Fault::None; // The check or the compiler had been at fault.
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
}

TEST_CASE("search: a candidate that takes the device down is passed over by the next run") {
  Fixture f({{0, {.us = 20}}, {1, {.us = 1, .fault = Fault::DeviceLost}}, {2, {.us = 10}}});
  Result<TunedKernel> lost = f.tuneOne();
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == ErrorCode::NoDevice);
  f.reopen();
  const KernelReport next = f.tuned();
  CHECK(next.config == "id=2");
  CHECK(next.failed == 1);
}

TEST_CASE("search: a candidate with which the machine went down twice is not tried again") {
  Fixture f({{0, {.us = 1}}, {1, {.us = 20}}});
  codegen::KernelPlan plan = *makeTask(f.script).space->emit({{"id", 0}});
  Measurement trial;
  trial.kernel = tuningKey(plan, f.compiler.version(), f.device.sku());
  trial.config = {{"id", 0}};
  trial.driver = f.device.driver();
  for (int boot = 0; boot < 2; ++boot) {
    CHECK(f.store->beginTrial(trial));
    (*StoreFile::open(f.folder.path / "store.db", {}))->write([](SQLite::Database &db) {
      db.exec("UPDATE measurements SET boot = 'an earlier one'");
    });
  }
  CHECK(f.tuned().config == "id=1");
  CHECK(f.failureOf(0) == "crash");
}

TEST_CASE("search: cancelling stops between candidates and keeps what was measured") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}, {2, {.us = 10}}});
  std::stop_source stop;
  f.options.stop = stop.get_token();
  f.options.progress = [&](const Progress &progress) {
    if (progress.candidatesDone == 2)
      stop.request_stop();
  };
  Result<TunedKernel> cancelled = f.tuneOne();
  REQUIRE_FALSE(cancelled);
  CHECK(cancelled.error().code == ErrorCode::Cancelled);
  CHECK(f.rowOf(1)->timing);
  CHECK_FALSE(f.rowOf(2));
  f.reopen();
  f.options.stop = {};
  f.options.progress = {};
  CHECK(f.tuned().config == "id=2");
}

TEST_CASE("search: progress counts the candidates and tells the best time") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}, {2, {.fault = Fault::CompileError}}});
  std::vector<Progress> seen;
  f.options.progress = [&](const Progress &progress) { seen.push_back(progress); };
  REQUIRE(f.tuneOne());
  REQUIRE(seen.size() == 3);
  CHECK(seen.back().candidatesDone == 3);
  CHECK(seen.back().candidates == 3);
  CHECK(seen.back().bestUs == 20);
  CHECK(seen.back().kernels == 1);
}

TEST_CASE("search: what is to be searched is told once, and nothing where the store has all") {
  Fixture f({{0, {.us = 10}}});
  std::vector<std::size_t> told;
  f.options.onMiss = [&](std::size_t kernels) {
    told.push_back(kernels);
    return 1U;
  };
  REQUIRE(f.tuneOne());
  CHECK(told == std::vector<std::size_t>{1});
  REQUIRE(f.tuneOne());
  CHECK(told.size() == 1);
}
