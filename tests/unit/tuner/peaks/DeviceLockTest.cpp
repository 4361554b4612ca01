#include "ChildProcess.h"
#include "TemporaryFolder.h"
#include "tests/unit/tuner/search/SearchFakes.h"

#include "tests/Skip.h"
#include "tuner/peaks/DeviceLock.h"
#include "tuner/search/Tuner.h"

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

/// A device of this test run alone.
const std::string device = "test-" + std::to_string(getpid());

/// Says nothing.
LockPatience &silent() {
  static LockPatience patience;
  return patience;
}

double millisecondsOf(const DeviceLock &lock) {
  return std::chrono::duration<double, std::milli>(lock.waited()).count();
}

constexpr int turns = 20;

/// What a process does alone: its beginning and its end go to a file.
void workAlone(const std::string &log) {
  std::ofstream file(log, std::ios::app);
  file << "begin\n" << std::flush;
  std::this_thread::sleep_for(std::chrono::microseconds(300));
  file << "end\n" << std::flush;
}

/// Holds the lock again and again, and works alone each time.
void takeTurns(const std::string &log, const std::filesystem::path &storeFolder) {
  for (int i = 0; i < turns; ++i) {
    DeviceLock alone(device, DeviceLock::Use::Alone, storeFolder, silent());
    workAlone(log);
  }
}

/// Whether nobody began before another one's end; how often one did.
int checkTurns(const std::filesystem::path &log) {
  std::ifstream file(log);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines)
    CHECK(line == (lines % 2 == 0 ? "begin" : "end"));
  return lines / 2;
}

} // namespace

TEST_CASE("device lock: one process at a time measures") {
  TemporaryFolder folder;
  std::array<pid_t, 4> children{};
  for (pid_t &child : children)
    child = spawn([&] {
      takeTurns(folder.path / "log", ""); // Whatever their stores.
      return 0;
    });
  for (pid_t child : children)
    CHECK(waitFor(child) == 0);
  CHECK(checkTurns(folder.path / "log") == turns * static_cast<int>(children.size()));
}

TEST_CASE("device lock: processes with a /tmp of their own meet beside the store") {
  TemporaryFolder folder;
  std::array<pid_t, 3> children{};
  for (pid_t &child : children)
    child = spawn([&] {
      if (chdir(folder.path.c_str()) != 0 || unshare(CLONE_NEWNS) != 0 ||
          mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          mount("tmpfs", "/tmp", "tmpfs", 0, "size=64k") != 0)
        return 77;
      takeTurns("log", ".");
      return 0;
    });
  int skipped = 0;
  for (pid_t child : children) {
    const int status = waitFor(child);
    CHECK((status == 0 || status == 77));
    skipped += status == 77 ? 1 : 0;
  }
  if (skipped > 0)
    kfuse::testing::skip("no right to mount a /tmp");
  else
    CHECK(checkTurns(folder.path / "log") == turns * static_cast<int>(children.size()));
}

TEST_CASE("device lock: searches of several processes measure one after the other, whatever their stores") {
  TemporaryFolder folder;
  std::array<pid_t, 3> children{};
  for (pid_t &child : children)
    child = spawn([&] {
      const Script script{{0, {.us = 30}}, {1, {.us = 20}}, {2, {.us = 10}}};
      FakeCompiler compiler(script);
      FakeDevice fake(script);
      fake.failsAtVisit = [&](int) {
        workAlone(folder.path / "log");
        return false;
      };
      std::unique_ptr<Store> store = std::move(*Store::open(folder.path / std::to_string(getpid()) / "store.db", {}));
      const ir::Target &target = *ir::findTarget("sm_80");
      TuningContext context{target, compiler, &fake, *store, nominalPeaks(target), {}};
      const TuningTask task = makeTask(script);
      return tune(context, std::span(&task, 1)) ? 0 : 1;
    });
  for (pid_t child : children)
    CHECK(waitFor(child) == 0);
  CHECK(checkTurns(folder.path / "log") >= 3 * static_cast<int>(children.size()));
}

TEST_CASE("device lock: devices do not wait for each other, nor do those that disturb") {
  TemporaryFolder folder;
  DeviceLock first(device, DeviceLock::Use::Shared, folder.path, silent());
  DeviceLock second(device, DeviceLock::Use::Shared, folder.path, silent());
  CHECK(millisecondsOf(second) < 1000);
  DeviceLock other(device + "-other", DeviceLock::Use::Alone, folder.path, silent());
  CHECK(millisecondsOf(other) < 1000);
}

TEST_CASE("device lock: a store in /tmp itself, by whatever name, does not wait for its own lock") {
  TemporaryFolder folder;
  const std::filesystem::path alias = folder.path / "alias";
  std::filesystem::create_directory_symlink("/tmp", alias);
  for (const std::filesystem::path &stores : {std::filesystem::path("/tmp"), alias}) {
    LockPatience patience([](const std::string &line) { FAIL_CHECK("warned: " << line); });
    DeviceLock lock(device, DeviceLock::Use::Alone, stores, patience);
    CHECK(millisecondsOf(lock) < 1000);
  }
}

TEST_CASE("device lock: it ends with its process") {
  TemporaryFolder folder;
  pid_t child = spawn([&] {
    DeviceLock held(device, DeviceLock::Use::Alone, folder.path, silent());
    raise(SIGKILL);
    return 0;
  });
  CHECK(waitFor(child) == -1);
  CHECK(millisecondsOf(DeviceLock(device, DeviceLock::Use::Alone, folder.path, silent())) < 1000);
}

TEST_CASE("device lock: where there can be no lock one line says so, and the work goes on") {
  std::string warned;
  LockPatience patience([&](const std::string &line) { warned += line; });
  for (int i = 0; i < 2; ++i)
    DeviceLock(device, DeviceLock::Use::Alone, "/no/such/folder", patience);
  CHECK(warned == "the measuring lock of device " + device +
                      " in /no/such/folder cannot be had (No such file or directory): timings may be disturbed by "
                      "other processes");
}

TEST_CASE("device lock: what is no file is no lock") {
  for (const std::string kind : {"folder", "pipe", "link"}) {
    TemporaryFolder folder;
    const std::filesystem::path path = folder.path / "kfuse-devices.lock", other = folder.path / "other";
    std::ofstream(other) << "somebody's";
    REQUIRE((kind == "folder" ? mkdir(path.c_str(), 0700)
             : kind == "pipe" ? mkfifo(path.c_str(), 0600)
                              : symlink(other.c_str(), path.c_str())) == 0);
    std::string warned;
    LockPatience patience([&](const std::string &line) { warned += line; });
    DeviceLock lock(device, DeviceLock::Use::Alone, folder.path, patience);
    CHECK(warned.find("the measuring lock of device " + device + " in " + folder.path.string() + " cannot be had") ==
          0);
    CHECK(millisecondsOf(lock) < 1000);
  }
}

namespace {

/// A process that holds the lock until it is killed.
struct Holder {
  explicit Holder(const std::filesystem::path &folder) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    child = spawn([&] {
      DeviceLock held(device, DeviceLock::Use::Alone, folder, silent());
      const char ready = 'r';
      const ssize_t written = write(ends[1], &ready, 1);
      while (written == 1)
        pause();
      return 1;
    });
    char ready = 0;
    REQUIRE(read(ends[0], &ready, 1) == 1);
    close(ends[0]), close(ends[1]);
  }
  ~Holder() { end(); }
  void end() {
    if (child == 0)
      return;
    kill(child, SIGKILL);
    waitFor(std::exchange(child, 0));
  }
  pid_t child = 0;
};

/// What was said, a line each.
struct Heard {
  LockPatience::Warn sink() {
    return [this](const std::string &line) { lines.push_back(line); };
  }
  std::vector<std::string> lines;
};

} // namespace

TEST_CASE("device lock: one that another process keeps is waited for once, and each line is said once") {
  TemporaryFolder folder;
  Holder holder(folder.path); // Also of the one in /tmp, for this device.
  Heard heard;
  LockPatience patience(heard.sink());
  patience.limit(3);
  const double waited = millisecondsOf(DeviceLock(device, DeviceLock::Use::Alone, folder.path, patience));
  CHECK(waited >= 1500);
  CHECK(waited < 3000); // Once.
  for (int i = 0; i < 10; ++i)
    CHECK(millisecondsOf(DeviceLock(device, DeviceLock::Use::Shared, folder.path, patience)) < 1000);
  REQUIRE(heard.lines.size() == 3);
  const std::string who = "another process, " + std::to_string(holder.child) + " (kfuse_unit_test)";
  const std::string lock = "the measuring lock of device " + device + " in ";
  CHECK(heard.lines[0] == "waiting up to 1.5 s for " + lock + "/tmp, which " + who + " holds");
  CHECK(heard.lines[1] == lock + "/tmp cannot be had (" + who +
                              " keeps it, 1.5 s were waited): timings may be disturbed by other processes");
  CHECK(heard.lines[2].starts_with(lock + folder.path.string() + " cannot be had"));
  holder.end();
  CHECK(millisecondsOf(DeviceLock(device, DeviceLock::Use::Alone, folder.path, patience)) < 1000);
  Holder another(folder.path); // It was free meanwhile: worth another wait.
  CHECK(millisecondsOf(DeviceLock(device, DeviceLock::Use::Alone, folder.path, patience)) >= 1500);
}

TEST_CASE("device lock: who asks to stop does not wait") {
  TemporaryFolder folder;
  Holder holder(folder.path);
  Heard heard;
  std::stop_source stop;
  LockPatience patience(heard.sink(), stop.get_token());
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop.request_stop();
  });
  CHECK(millisecondsOf(DeviceLock(device, DeviceLock::Use::Alone, folder.path, patience)) < 900);
  CHECK(heard.lines.empty());
}
