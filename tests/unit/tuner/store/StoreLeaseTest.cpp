#include "ChildProcess.h"
#include "TemporaryFolder.h"
#include "tests/unit/tuner/search/SearchFakes.h"

#include "tuner/store/StoreLease.h"
#include "tuner/store/StoreUpkeep.h"

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <fstream>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<StoreFile> openFile(const TemporaryFolder &folder) {
  Result<std::unique_ptr<StoreFile>> file = StoreFile::open(folder.path / "store.db", {});
  REQUIRE(file);
  return std::move(*file);
}

void execute(StoreFile &file, const std::string &sql) {
  REQUIRE(file.write([&](SQLite::Database &db) { db.exec(sql); }));
}

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Tuning of `kernels` tasks by fakes, as one of several processes: each search leaves a line in the log.
int tuneTogether(const std::filesystem::path &folder, int kernels, double secondsPerRun) {
  Script script;
  for (int id = 0; id < 3; ++id)
    script.emplace(id, Behaviour{.us = 10.0 + id, .runSeconds = secondsPerRun});
  FakeCompiler compiler(script);
  FakeDevice device(script);
  Result<std::unique_ptr<Store>> store = Store::open(folder / "store.db", {});
  if (!store)
    return 100;
  const ir::Target &target = *ir::findTarget("sm_80");
  std::vector<TuningTask> tasks;
  for (int i = 0; i < kernels; ++i) {
    tasks.push_back(makeTask(script, "kernel " + std::to_string(i)));
    tasks.back().signature = "kernel " + std::to_string(i);
    tasks.back().name = tasks.back().signature;
  }
  TuningContext context{target, compiler, &device, **store, nominalPeaks(target), {}};
  Result<std::vector<TunedKernel>> tuned = tune(context, tasks);
  if (!tuned)
    return 101;
  std::ofstream log(folder / "log", std::ios::app);
  for (const TunedKernel &kernel : *tuned)
    if (!kernel.report.fromCache)
      log << kernel.report.name + "\n" << std::flush;
  return static_cast<int>(tuned->size());
}

std::vector<std::string> linesOf(const std::filesystem::path &path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

} // namespace

TEST_CASE("lease: a region is one owner's until it is released") {
  TemporaryFolder folder;
  std::unique_ptr<StoreFile> file = openFile(folder);
  LeaseBook first(*file), second(*file);
  CHECK(first.claim("a"));
  CHECK(first.claim("a"));
  CHECK_FALSE(second.claim("a"));
  CHECK(second.claim("b"));
  first.release("a");
  CHECK(second.claim("a"));
  CHECK_FALSE(first.claim("a"));
}

TEST_CASE("lease: what a store held is free when it is closed") {
  TemporaryFolder folder;
  std::unique_ptr<StoreFile> file = openFile(folder);
  {
    CHECK(LeaseBook(*file).claim("a"));
  }
  CHECK(LeaseBook(*file).claim("a"));
}

TEST_CASE("lease: that of a process which was killed is free at once") {
  TemporaryFolder folder;
  pid_t child = spawn([&] {
    std::unique_ptr<StoreFile> file = openFile(folder);
    LeaseBook book(*file);
    if (book.claim("a"))
      raise(SIGKILL);
    return 1;
  });
  CHECK(waitFor(child) == -1);
  std::unique_ptr<StoreFile> file = openFile(folder);
  CHECK(verify(*file).leases == 0);
  LeaseBook next(*file);
  CHECK(next.claim("a"));
  CHECK(verify(*file).leases == 1);
}

TEST_CASE("lease: another process of the same number is not the owner") {
  TemporaryFolder folder;
  std::unique_ptr<StoreFile> file = openFile(folder);
  LeaseBook first(*file), second(*file);
  REQUIRE(first.claim("a"));
  execute(*file, "UPDATE leases SET owner = replace(owner, '/' || " + std::to_string(getpid()) + " || '/', '/' || " +
                     std::to_string(getpid()) + " || '/9')");
  CHECK(second.claim("a"));
}

TEST_CASE("lease: on another machine it lasts as long as its heart beats") {
  TemporaryFolder folder;
  std::unique_ptr<StoreFile> file = openFile(folder);
  const LeaseBook::Pace pace{std::chrono::milliseconds(20), std::chrono::milliseconds(200)};
  LeaseBook watcher(*file, pace);
  execute(*file, "INSERT INTO leases VALUES('a', 'another-boot/1/1/1/0', 0)");
  const auto start = Clock::now();
  CHECK_FALSE(watcher.claim("a"));
  auto stopped = start;
  for (int beat = 1; beat < 30; ++beat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    execute(*file, "UPDATE leases SET beat = beat + 1");
    stopped = Clock::now(); // Before the beat is seen, however long that takes.
    CHECK_FALSE(watcher.claim("a"));
  }
  while (!watcher.claim("a") && secondsSince(start) < 20)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(secondsSince(stopped) > 0.18);
  CHECK(secondsSince(stopped) < 10);
}

TEST_CASE("lease: the heart beats while a lease is held") {
  TemporaryFolder folder;
  std::unique_ptr<StoreFile> file = openFile(folder);
  LeaseBook book(*file, {std::chrono::milliseconds(5), std::chrono::milliseconds(1000)});
  REQUIRE(book.claim("a"));
  auto beats = [&] {
    return *file->read(
        [](SQLite::Database &db) { return std::optional(db.execAndGet("SELECT beat FROM leases").getInt()); });
  };
  auto start = Clock::now();
  while (beats() < 3 && secondsSince(start) < 20)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(beats() >= 3);
}

TEST_CASE("lease: where the store cannot be written everybody may work") {
  Result<std::unique_ptr<StoreFile>> file = StoreFile::open("/proc/no/such/store.db", {});
  REQUIRE(file);
  CHECK(LeaseBook(**file).claim("a"));
}

TEST_CASE("lease: eight processes tune each kernel once, and all get all") {
  TemporaryFolder folder;
  std::array<pid_t, 8> children{};
  for (pid_t &child : children)
    child = spawn([&] { return tuneTogether(folder.path, 12, 0.005); });
  for (pid_t child : children)
    CHECK(waitFor(child) == 12);
  std::vector<std::string> searched = linesOf(folder.path / "log");
  CHECK(searched.size() == 12);
  CHECK(std::unique(searched.begin(), searched.end()) == searched.end());
}

TEST_CASE("lease: the work of those who are killed is done by the others") {
  TemporaryFolder folder;
  std::array<pid_t, 8> children{};
  for (pid_t &child : children)
    child = spawn([&] { return tuneTogether(folder.path, 12, 0.02); });
  usleep(100000); // Each search takes 0.2 s or more.
  for (std::size_t i = 0; i < 4; ++i)
    kill(children[i], SIGKILL);
  auto start = Clock::now();
  for (std::size_t i = 0; i < children.size(); ++i)
    CHECK(waitFor(children[i]) == (i < 4 ? -1 : 12));
  CHECK(secondsSince(start) < 14); // Nobody waited for a lease to run out.
  std::vector<std::string> searched = linesOf(folder.path / "log");
  CHECK(std::unique(searched.begin(), searched.end()) == searched.end());
}
