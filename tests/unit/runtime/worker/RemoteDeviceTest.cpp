// A real worker process: kfuse-worker of this build, with kernels that crash and hang in it.
#include "ChildProcess.h"
#include "Pace.h"
#include "TemporaryFolder.h"
#include "tests/unit/tuner/search/FaultyKernels.h"

#include "runtime/Program.h"
#include "runtime/worker/RemoteDevice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

using namespace kfuse;
using namespace kfuse::runtime;
using kfuse::tuner::test::faultyPlan;
using kfuse::tuner::test::Flaw;

namespace {

std::unique_ptr<Device> remoteCpu(int threads = 2) {
  return makeRemoteDevice(cpuFacts(threads), {"cpu", std::to_string(threads)});
}

/// A remote device with x and y of faultyPlan(), and the kernel loaded.
struct Fixture {
  explicit Fixture(Flaw flaw) : plan(faultyPlan(flaw)), binary(std::move(*makeCpuCompiler()->compile(plan))) { load(); }

  void load() {
    x = std::move(*device->allocate(bytes));
    y = std::move(*device->allocate(bytes));
    std::vector<float> values(tuner::test::faultyElements);
    std::iota(values.begin(), values.end(), 0.0F);
    REQUIRE(device->upload(x->data(), values.data(), bytes));
    kernel = std::move(*device->load(plan, binary));
  }

  Result<void> launch() {
    std::array<void *, 2> buffers{x->data(), y->data()};
    return kernel->launch(nullptr, buffers, nullptr);
  }

  static constexpr std::size_t bytes = 4 * tuner::test::faultyElements;
  codegen::KernelPlan plan;
  CompiledKernel binary;
  std::unique_ptr<Device> device = remoteCpu();
  std::unique_ptr<DeviceBuffer> x, y;
  std::unique_ptr<LoadedKernel> kernel;
};

} // namespace

TEST_CASE("RemoteDevice: it asks once which device it is, when it has to") {
  int asked = 0;
  std::unique_ptr<Device> device = makeRemoteDevice(cpuFacts(1), [&] {
    ++asked;
    return WorkerPlace{"the second", {"cpu", "1"}};
  });
  CHECK(device->sku() == cpuFacts(1).sku);
  CHECK(asked == 0);
  CHECK(device->id() == "the second");
  CHECK(device->allocate(64));
  CHECK(device->restart());
  CHECK(asked == 1);
}

TEST_CASE("RemoteDevice: times runs of a whole program in the worker") {
  Fixture f(Flaw::None);
  using Space = BufferRef::Space;
  const TensorDesc tensor{"x", DType::F32, {tuner::test::faultyElements}};
  Program program;
  program.target = "cpu";
  program.arguments = program.results = {tensor};
  program.roles = {Role::Input};
  program.resultState = {-1};
  program.kernels = {{f.plan, f.binary}};
  program.arenaBytes = Fixture::bytes;
  // Each step doubles.
  const BufferRef x{Space::Argument, 0, 0}, between{Space::Arena, 0, 0}, y{Space::Result, 0, 0};
  program.steps = {{0, {x, between}}, {0, {between, y}}};
  std::array<void *, 1> arguments{f.x->data()}, results{f.y->data()};
  Result<std::unique_ptr<TimedRuns>> runs = f.device->prepareProgramRuns(program, arguments, results);
  REQUIRE(runs);
  Result<std::vector<double>> times = (*runs)->measure({.repetitions = 5, .maxSeconds = 60});
  REQUIRE(times);
  CHECK(times->size() == 5);
  CHECK(*std::min_element(times->begin(), times->end()) > 0);
  std::vector<float> found(tuner::test::faultyElements);
  REQUIRE(f.device->download(found.data(), f.y->data(), Fixture::bytes));
  CHECK(found[4095] == 4 * 4095);

  results[0] = nullptr;
  runs = f.device->prepareProgramRuns(program, arguments, results);
  REQUIRE(runs);
  CHECK((*runs)->measure({}).error().message.find("result 'x' is null") != std::string::npos);
  program.target = "sm_90a";
  CHECK(f.device->prepareProgramRuns(program, arguments, results).error().code == ErrorCode::Usage);
  program.steps[0].kernel = 7;
  CHECK(f.device->prepareProgramRuns(program, arguments, results).error().code == ErrorCode::BadModel);
}

TEST_CASE("RemoteDevice: runs and measures a kernel in the worker") {
  Fixture f(Flaw::None);
  REQUIRE(f.launch());
  std::vector<float> y(tuner::test::faultyElements);
  REQUIRE(f.device->download(y.data(), f.y->data(), Fixture::bytes));
  CHECK(y[0] == 0);
  CHECK(y[4095] == 8190);
  std::array<void *, 2> buffers{f.x->data(), f.y->data()};
  CHECK(f.device->prepareMeasuring());
  Result<std::vector<double>> times =
      f.device->measure(*f.kernel, buffers, nullptr, {.repetitions = 7, .maxSeconds = 60});
  REQUIRE(times);
  CHECK(times->size() == 7);
  CHECK(times->front() > 0);
  CHECK(f.device->sku() == openCpu(2)->sku());
}

TEST_CASE("RemoteDevice: runs prepared once are measured again and again, until the device is restarted") {
  Fixture f(Flaw::None);
  std::array<void *, 2> buffers{f.x->data(), f.y->data()};
  std::unique_ptr<TimedRuns> runs = std::move(*f.device->prepareRuns(*f.kernel, buffers, nullptr, {}));
  for (int repetitions : {1, 4})
    CHECK(runs->measure({.repetitions = repetitions, .warmupMs = 0, .maxSeconds = 60})->size() ==
          static_cast<std::size_t>(repetitions));
  REQUIRE(f.device->restart());
  CHECK(runs->measure({}).error().message == "measure was called for what was made before the device was restarted");
}

TEST_CASE("RemoteDevice: buffers larger than the shared memory arrive whole") {
  std::unique_ptr<Device> device = remoteCpu(), here = openCpu(2);
  std::vector<std::uint32_t> sent((70 << 20) / 4), received(sent.size());
  std::iota(sent.begin(), sent.end(), 1U);
  const std::size_t bytes = 4 * sent.size();
  auto buffer = std::move(*device->allocate(bytes)), copy = std::move(*device->allocate(bytes));
  REQUIRE(device->upload(buffer->data(), sent.data(), bytes));
  REQUIRE(device->copy(nullptr, copy->data(), buffer->data(), bytes));
  REQUIRE(device->fill(copy->data(), 0xff, 4));
  REQUIRE(device->download(received.data(), copy->data(), bytes));
  CHECK(received.front() == 0xffffffff);
  received.front() = sent.front();
  CHECK(received == sent);
  CHECK(*device->digest(buffer->data(), bytes) == *here->digest(sent.data(), bytes));
  CHECK(*device->digest(copy->data(), bytes) != *device->digest(buffer->data(), bytes));
}

TEST_CASE("RemoteDevice: the device's own errors come through, and the worker lives on") {
  std::unique_ptr<Device> device = remoteCpu();
  auto huge = device->allocate(std::size_t(1) << 60);
  REQUIRE_FALSE(huge);
  CHECK(huge.error().code == ErrorCode::OutOfMemory);
  CHECK(device->allocate(1));
}

TEST_CASE("RemoteDevice: a kernel that crashes ends the worker, and the device can be restarted") {
  Fixture f(Flaw::Crash);
  Result<void> crashed = f.launch();
  REQUIRE_FALSE(crashed);
  CHECK(crashed.error().code == ErrorCode::Crash);
  CHECK(crashed.error().message == "the worker process ended with signal 11 (Segmentation fault) in launch");
  CHECK(f.device->synchronize(nullptr).error().code == ErrorCode::Crash);
  REQUIRE(f.device->restart());
  CHECK(f.launch().error().message == "launch was called for what was made before the device was restarted");
  CHECK(f.device->synchronize(nullptr));
  f.load();
  CHECK(f.launch().error().code == ErrorCode::Crash);
}

TEST_CASE("RemoteDevice: a kernel that does not end is ended") {
  Fixture f(Flaw::Hang);
  f.device->limitRuns(0.2);
  auto start = std::chrono::steady_clock::now();
  Result<void> ended = f.launch();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == ErrorCode::Timeout);
  CHECK(ended.error().message == "launch took more than 0.2 s and was ended");
  CHECK(seconds < 10);
  CHECK(f.device->restart());
  CHECK(f.device->allocate(1));
}

TEST_CASE("RemoteDevice: a worker that somebody stopped is ended after 2 s, and another one goes on") {
  Fixture f(Flaw::None);
  REQUIRE(tuner::test::signalWorkers(SIGSTOP) == 1);
  const auto start = std::chrono::steady_clock::now();
  Result<void> launched = f.launch();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  REQUIRE_FALSE(launched);
  CHECK(launched.error().code == ErrorCode::Crash);
  CHECK(launched.error().message == "the worker process was stopped by a signal in launch, and ended");
  CHECK(seconds > 1.5);
  CHECK(seconds < 10);
  REQUIRE(f.device->restart());
  f.load();
  CHECK(f.launch());
}

TEST_CASE("RemoteDevice: a stop ends the call under way and every other, and the worker") {
  CHECK(tuner::test::soonest(1200, [] {
          Fixture f(Flaw::Hang);
          std::stop_source stop;
          f.device = makeRemoteDevice(cpuFacts(1), {"cpu", "1"}, stop.get_token());
          f.load();
          std::jthread stopper([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            stop.request_stop();
          });
          const double start = tuner::test::wallMs();
          Result<void> cancelled = f.launch();
          const double ms = tuner::test::wallMs() - start;
          REQUIRE_FALSE(cancelled);
          CHECK(cancelled.error().code == ErrorCode::Cancelled);
          CHECK(f.device->synchronize(nullptr).error().code == ErrorCode::Cancelled);
          CHECK(f.device->restart().error().code == ErrorCode::Cancelled);
          CHECK(tuner::test::signalWorkers(0) == 0);
          return ms;
        }) < 1200);
}

TEST_CASE("RemoteDevice: a worker that cannot be had is an error that says so") {
  const std::string before = std::getenv("KFUSE_WORKER");
  setenv("KFUSE_WORKER", "/no/such/kfuse-worker", 1);
  auto missing = remoteCpu()->allocate(1);
  setenv("KFUSE_WORKER", "/bin/true", 1);
  auto other = remoteCpu()->allocate(1);
  setenv("KFUSE_WORKER", before.c_str(), 1);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::Io);
  CHECK(missing.error().message ==
        "no worker process to measure in: /no/such/kfuse-worker does not start: No such file or directory");
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::NoDevice);
  CHECK(other.error().message == "the worker process ended with status 0 in starting");
}

TEST_CASE("RemoteDevice: a worker that ends as it starts is started once more") {
  tuner::test::TemporaryFolder folder;
  const std::string before = std::getenv("KFUSE_WORKER"), script = folder.path / "worker";
  std::ofstream(script) << "#!/bin/sh\nif mkdir " << folder.path / "ended" << "; then kill -9 $$; fi\nexec '" << before
                        << "' \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  setenv("KFUSE_WORKER", script.c_str(), 1);
  CHECK(remoteCpu()->allocate(1));
  CHECK(std::filesystem::exists(folder.path / "ended"));
  setenv("KFUSE_WORKER", before.c_str(), 1);
}
