#include "ChildProcess.h"
#include "TemporaryFolder.h"

#include "tuner/DeviceLock.h"

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

/// A device of this test run alone.
struct Device {
  ~Device() { std::filesystem::remove("/tmp/kfuse-" + id + ".lock"); }
  std::string id = "test-" + std::to_string(getpid());
};

double millisecondsOf(const DeviceLock &lock) {
  return std::chrono::duration<double, std::milli>(lock.waited()).count();
}

} // namespace

TEST_CASE("device lock: one process at a time measures") {
  TemporaryFolder folder;
  Device device;
  std::array<pid_t, 4> children{};
  for (pid_t &child : children)
    child = spawn([&] {
      for (int i = 0; i < 20; ++i) {
        DeviceLock alone(device.id, DeviceLock::Use::Alone, {});
        std::ofstream log(folder.path / "log", std::ios::app);
        log << "begin\n" << std::flush;
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        log << "end\n" << std::flush;
      }
      return 0;
    });
  for (pid_t child : children)
    CHECK(waitFor(child) == 0);
  std::ifstream log(folder.path / "log");
  int lines = 0;
  for (std::string line; std::getline(log, line); ++lines)
    CHECK(line == (lines % 2 == 0 ? "begin" : "end"));
  CHECK(lines == 160);
}

TEST_CASE("device lock: those that disturb share it, and it ends with its process") {
  Device device;
  DeviceLock first(device.id, DeviceLock::Use::Shared, {});
  DeviceLock second(device.id, DeviceLock::Use::Shared, {});
  CHECK(millisecondsOf(second) < 1000);
  const std::string other = device.id + "-other";
  pid_t child = spawn([&] {
    DeviceLock held(other, DeviceLock::Use::Alone, {});
    raise(SIGKILL);
    return 0;
  });
  CHECK(waitFor(child) == -1);
  CHECK(millisecondsOf(DeviceLock(other, DeviceLock::Use::Alone, {})) < 1000);
  std::filesystem::remove("/tmp/kfuse-" + other + ".lock");
}

TEST_CASE("device lock: where there can be no lock one line says so, and the work goes on") {
  std::string warned;
  DeviceLock lock("no/such/folder", DeviceLock::Use::Alone, [&](const std::string &line) { warned += line; });
  CHECK(warned ==
        "the measuring lock of device no/such/folder cannot be had (No such file or directory): timings may be "
        "disturbed by other processes");
}
