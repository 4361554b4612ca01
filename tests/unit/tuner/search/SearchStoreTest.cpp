// What a search takes from the store, trusts no further than it may, and leaves there.
#include "SearchFixture.h"

#include "tuner/store/StoreFile.h"
#include "tuner/store/StoreUpkeep.h"

#include <doctest/doctest.h>

#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

TEST_CASE("search: a second run compiles and measures nothing") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}, {2, {.us = 10, .fault = Fault::CompileError}}});
  Result<TunedKernel> cold = f.tuneOne();
  REQUIRE(cold);
  f.reopen();
  Result<TunedKernel> warm = f.tuneOne();
  REQUIRE(warm);
  CHECK(f.compiler.compiled == 0);
  CHECK(f.device.measured == 0);
  CHECK(warm->report.fromCache);
  CHECK(warm->report.config == cold->report.config);
  CHECK(warm->report.measuredUs == cold->report.measuredUs);
  CHECK(warm->report.candidates == 3);
  CHECK(warm->report.failed == 1);
  CHECK(warm->plan.source == cold->plan.source);
  CHECK(warm->binary.image == cold->binary.image);
  CHECK(warm->binary.facts == cold->binary.facts);
}

TEST_CASE("search: a changed template is a miss") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  REQUIRE(f.tuneOne());
  f.reopen();
  f.sourceSuffix = "v2";
  const KernelReport again = f.tuned();
  CHECK_FALSE(again.fromCache);
  CHECK(f.device.measured > 0);
  CHECK(f.log.find("the template's source has changed") != std::string::npos);
}

TEST_CASE("search: under another driver the old winner is measured again, first") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  REQUIRE(f.tuneOne());
  f.reopen();
  f.device.driverVersion = "2.0";
  const KernelReport again = f.tuned();
  CHECK_FALSE(again.fromCache);
  CHECK(f.device.order.front() == 20);
}

TEST_CASE("search: the winner of a near shape is measured first, and trusted no further") {
  Script script;
  for (int id = 0; id < 12; ++id)
    script[id] = {.us = id == 7 ? 20.0 : 30 + id};
  Fixture f(script);
  f.peaks.copyBytesPerUs = 8 * elements / 16.0; // A bound of 16 us.
  CHECK(f.tuned().config == "id=7");
  f.reopen();
  f.signature = "mul f32 2x2048"; // Another region of the same ops and size.
  f.sourceSuffix = "2x2048";
  f.script[3].us = 10;
  const KernelReport other = f.tuned();
  CHECK(f.device.order.front() == 20);
  CHECK(other.config == "id=3");
  f.reopen();
  TuningTask larger = makeTask(f.script, "1x4096");
  larger.signature = "mul f32 1x4096";
  functionsOf(larger).onCandidates = [make = functionsOf(larger).onCandidates] {
    std::vector<codegen::EstimatedConfig> candidates = make();
    for (codegen::EstimatedConfig &one : candidates)
      one.us += 100; // What took 20 us elsewhere is far from that here.
    return candidates;
  };
  TuningContext context{*ir::findTarget("sm_80"), f.compiler, &f.device, *f.store, f.peaks, f.options};
  REQUIRE(tune(context, std::span(&larger, 1)));
  CHECK(f.device.order.front() == 30);
}

TEST_CASE("search: as many candidates are compiled ahead as the search asks for, be an earlier winner near or not") {
  // Of "id + 200" each are those of the second program's kernel: another's lies between the two.
  Script script;
  for (int id = 0; id < 12; ++id)
    script[id] = script[100 + id] = script[200 + id] = {.us = id == 7 ? 20.0 : 30 + id};
  Fixture f(script);
  f.peaks.copyBytesPerUs = 8 * elements / 16.0; // A bound of 16 us.
  auto taskOf = [&](std::size_t program, const std::string &ops, int firstId, double laterUs) {
    TuningTask task = makeTask(script);
    task.program = program;
    task.ops = ops;
    task.signature = ops + std::to_string(firstId);
    functionsOf(task).onCandidates = [=] {
      std::vector<codegen::EstimatedConfig> candidates;
      for (int id = 0; id < 12; ++id)
        candidates.push_back({id + laterUs, {{"id", id}}});
      return candidates;
    };
    functionsOf(task).onEmit = [firstId, emit = functionsOf(task).onEmit](const codegen::TileConfig &config) {
      return emit({{"id", firstId + config["id"]}});
    };
    return task;
  };
  bool isNear = false, isStored = false;
  SUBCASE("it comes out near") { isNear = true; }
  SUBCASE("it comes out far") {}
  SUBCASE("it was stored, and is near") { isNear = isStored = true; }
  SUBCASE("it was stored, and is far") { isStored = true; }
  std::vector<TuningTask> tasks{taskOf(0, "mul", 0, 0), taskOf(0, "add", 100, 0),
                                taskOf(1, "mul", 200, isNear ? 0 : 100)};
  TuningContext context{*ir::findTarget("sm_80"), f.compiler, &f.device, *f.store, f.peaks, f.options};
  context.options.compileThreads = 1;
  if (isStored)
    REQUIRE(tune(context, std::span(tasks).first(1)));
  const int asked = isNear ? 4 : 8;
  std::atomic<bool> isSecond = false; // The kernel between the two is searched.
  std::atomic<int> ahead = 0;
  f.compiler.beforeCompile = [&](int id) {
    if (id < 200)
      return;
    isSecond.wait(false);
    ++ahead;
  };
  functionsOf(tasks[1]).onMakeInputs = [&, make = functionsOf(tasks[1]).onMakeInputs] {
    isSecond = true;
    isSecond.notify_all();
    for (int wait = 0; wait < 500 && ahead < asked; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(100)); // For one too many.
    CHECK(ahead == asked);
    return make();
  };
  Result<std::vector<TunedKernel>> kernels = tune(context, tasks);
  REQUIRE(kernels);
  CHECK(isSecond);
  CHECK(kernels->back().report.candidates == asked);
  CHECK(ahead == asked);
}

TEST_CASE("search: a choice that came without its machine code is compiled, not measured") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  REQUIRE(f.tuneOne());
  (*StoreFile::open(f.folder.path / "store.db", {}))->write([](SQLite::Database &db) {
    db.exec("DELETE FROM binaries");
  });
  f.reopen();
  f.options.requireTuned = true;
  CHECK(f.tuneOne().error().code == ErrorCode::NotTuned);
  f.options.requireTuned = false;
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
  CHECK(kernel.fromCache);
  CHECK(kernel.recompiled);
  CHECK(f.compiler.compiled == 1);
  CHECK(f.device.measured == 0);
  f.options.requireTuned = true;
  CHECK_FALSE(f.tuned().recompiled); // It was kept.
}

TEST_CASE("search: a stored config that the template does not list is never emitted") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  REQUIRE(f.tuneOne());
  std::unique_ptr<StoreFile> file = *StoreFile::open(f.folder.path / "store.db", {});
  StoreContents contents = readContents(*file);
  REQUIRE(contents.choices.size() == 1);
  contents.choices[0].at += 1000; // So that it is taken.
  SUBCASE("a field is missing") { contents.choices[0].config = {{"other", 1}}; }
  SUBCASE("a value is none of the template's") { contents.choices[0].config = {{"id", 2}}; }
  REQUIRE(addContents(*file, contents)->choices == 1);
  file.reset();
  f.reopen();
  f.options.requireTuned = true;
  CHECK(f.tuneOne().error().message.ends_with("this version has no such config"));
  f.options.requireTuned = false;
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
  CHECK(f.log.find("this version has no such config") != std::string::npos);
}

TEST_CASE("search: a stored config of an earlier version that lacks a field is a miss, binary and all") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  REQUIRE(f.tuneOne());
  StoreContents contents = readContents(**StoreFile::open(f.folder.path / "store.db", {}));
  REQUIRE(contents.choices.size() == 1);
  contents.choices[0].config = {{"other", 1}};
  contents.choices[0].kernel = "what it was then";
  f.store->put(contents.choices[0], {});
  f.reopen();
  REQUIRE(f.tuneOne());
  CHECK(f.log.find("the template's source has changed") != std::string::npos);
}

TEST_CASE("search: what was stored in a file that is gone is told") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  const std::filesystem::path path = f.folder.path / "store.db";
  SUBCASE("deleted") { std::filesystem::remove(path); }
  SUBCASE("replaced") {
    REQUIRE(Store::open(f.folder.path / "other.db", {}));
    std::filesystem::rename(f.folder.path / "other.db", path);
  }
  REQUIRE(f.tuneOne());
  REQUIRE(f.store->problem());
  CHECK(f.store->problem()->message.find("was deleted or replaced") != std::string::npos);
}

TEST_CASE("search: where compiling is not allowed a miss is an error with its reason") {
  Fixture f({{0, {.us = 10}}});
  f.options.requireTuned = true;
  Result<TunedKernel> kernel = f.tuneOne();
  REQUIRE_FALSE(kernel);
  CHECK(kernel.error().code == ErrorCode::NotTuned);
  CHECK(kernel.error().message ==
        "1 of 1 kernels are not in the store; tune them first: double (mul): it was never tuned on this device with "
        "this compiler");
  CHECK(f.compiler.compiled == 0);
}

TEST_CASE("search: who measures holds a lock beside the store") {
  Fixture f({{0, {.us = 10}}});
  auto isHeld = [&] {
    const int file = open((f.folder.path / "kfuse-devices.lock").c_str(), O_RDWR | O_CLOEXEC);
    struct flock all{};
    all.l_type = F_WRLCK;
    REQUIRE(fcntl(file, F_OFD_GETLK, &all) == 0);
    close(file);
    return all.l_type != F_UNLCK;
  };
  f.device.failsAtVisit = [&](int) {
    CHECK(isHeld());
    return false;
  };
  REQUIRE(f.tuneOne());
  CHECK(f.device.measured > 0);
  CHECK_FALSE(isHeld());
}

TEST_CASE("search: without the device the best-ranked candidate that compiles is kept as untimed") {
  Fixture f({{0, {.fault = Fault::CompileError}}, {1, {.spillBytes = 8}}, {2, {}}, {3, {}}});
  f.isPresent = false;
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=2");
  CHECK_FALSE(kernel.measuredUs);
  CHECK(kernel.candidates == 3);
  CHECK(kernel.failed == 2);
  f.reopen();
  const KernelReport warm = f.tuned();
  CHECK(warm.fromCache);
  CHECK_FALSE(warm.measuredUs);
  CHECK(f.compiler.compiled == 0);
  f.isPresent = true;
  CHECK_FALSE(f.tuned().fromCache); // An untimed choice is none for the device itself.
}

TEST_CASE("search: cards of one architecture that are not here have untimed choices of their own") {
  Fixture f({{0, {}}, {1, {}}});
  f.isPresent = false;
  for (const char *target : {"sm_80", "A100-SXM4-80GB", "A100 80GB PCIe"}) {
    CAPTURE(target);
    f.targetName = target;
    CHECK_FALSE(f.tuned().fromCache);
    CHECK(f.tuned().fromCache);
  }
}

TEST_CASE("search: without effort the model chooses whatever the store holds, and what was measured stays") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  f.options.effort = Effort::None;
  const KernelReport chosen = f.tuned();
  CHECK(chosen.config == "id=0");
  CHECK_FALSE(chosen.measuredUs);
  CHECK(f.device.measured == 0);
  CHECK(f.tuned().fromCache);
  f.options.effort = Effort::Quick;
  CHECK(f.tuned().config == "id=1");
  f.options.effort = Effort::None;
  f.reopen();
  for (bool strict : {false, true}) {
    f.options.requireTuned = strict;
    const KernelReport again = f.tuned();
    CHECK(again.config == "id=0");
    CHECK(again.fromCache); // Its own choice and binary, beside those that were measured.
  }
  CHECK(f.compiler.compiled == 0);
  f.options = {};
  Result<TunedKernel> measured = f.tuneOne();
  CHECK(measured->report.fromCache);
  CHECK(measured->report.config == "id=1");
}

TEST_CASE("search: without effort what was measured is taken for want of another where nothing may be compiled") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  CHECK(f.tuned().config == "id=1");
  f.options.effort = Effort::None;
  f.options.requireTuned = true;
  CHECK(f.tuned().config == "id=1");
}

TEST_CASE("search: a choice of the model that became stale does not hide what was measured since") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  f.options.effort = Effort::None;
  REQUIRE(f.tuneOne());
  f.sourceSuffix = "v2";
  f.options.requireTuned = true;
  CHECK(f.tuneOne().error().message.find("the template's source has changed") != std::string::npos);
  f.options = {};
  REQUIRE(f.tuneOne());
  f.options.effort = Effort::None;
  f.options.requireTuned = true;
  const KernelReport kernel = f.tuned();
  CHECK(kernel.config == "id=1");
}

TEST_CASE("search: where only the model has chosen a kernel the miss says so") {
  Fixture f({{0, {.us = 30}}});
  f.options.effort = Effort::None;
  REQUIRE(f.tuneOne());
  f.options.effort = Effort::Quick;
  f.options.requireTuned = true;
  Result<TunedKernel> kernel = f.tuneOne();
  REQUIRE_FALSE(kernel);
  CHECK(kernel.error().message ==
        "1 of 1 kernels are not in the store; tune them first: double (mul): only the cost model has chosen a config, "
        "none was measured on this device with this compiler");
}

TEST_CASE("search: without effort another driver changes nothing") {
  Fixture f({{0, {.us = 30}}});
  f.options.effort = Effort::None;
  REQUIRE(f.tuneOne());
  f.device.driverVersion = "2.0";
  CHECK(f.tuned().fromCache);
}

TEST_CASE("search: an untimed choice does not replace a timed one that came meanwhile") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  Fixture other(f.script);
  other.store = std::move(*Store::open(f.folder.path / "store.db", {}));
  f.options.effort = Effort::None;
  f.compiler.beforeCompile = [&](int) { CHECK(other.tuneOne()->report.config == "id=1"); };
  CHECK(f.tuned().config == "id=0");
  f.compiler.beforeCompile = {};
  f.options = {};
  Result<TunedKernel> stored = f.tuneOne();
  CHECK(stored->report.config == "id=1");
  CHECK(stored->report.measuredUs);
}

TEST_CASE("search: a full disk or a store that cannot be written changes no result") {
  Fixture f({{0, {.us = 30}}, {1, {.us = 20}}});
  f.store = std::move(*Store::open("/proc/no/such/store.db", {}));
  CHECK(f.tuned().config == "id=1");
  CHECK(f.store->problem());
}
