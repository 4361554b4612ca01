#include "runtime/BucketContexts.h"
#include "tests/unit/SampleProgram.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

/// Interprets the plans of SampleProgram.h by name on host memory, and counts what it is asked for.
class HostDevice final : public Device {
public:
  explicit HostDevice(bool replays = false) : replays(replays) {}

  int launches = 0, allocations = 0, loads = 0, replayers = 0;
  std::vector<std::vector<void *>> replayed; ///< The pointers of each replay.
  std::vector<bool> behind;                  ///< Whether each kernel that was replayed was.
  bool capturing = false;
  std::size_t memoryLimit = SIZE_MAX;
  std::vector<void *> workspaces;

  std::string sku() const override { return "host"; }
  std::string driver() const override { return ""; }
  std::string target() const override { return "sm_90a"; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    if (bytes > memoryLimit)
      return Error{ErrorCode::OutOfMemory, "cannot allocate " + std::to_string(bytes) + " bytes"};
    ++allocations;
    return std::unique_ptr<DeviceBuffer>(std::make_unique<Buffer>(bytes));
  }
  Result<void> upload(void *device, const void *host, std::size_t bytes) override { return move(device, host, bytes); }
  Result<void> download(void *host, const void *device, std::size_t bytes) override {
    return move(host, device, bytes);
  }
  Result<void> fill(void *device, unsigned char value, std::size_t bytes) override {
    std::memset(device, value, bytes);
    return {};
  }
  Result<void> copy(Stream, void *to, const void *from, std::size_t bytes) override { return move(to, from, bytes); }
  Result<void> synchronize(Stream) override { return {}; }
  Result<std::unique_ptr<LoadedKernel>> load(const codegen::KernelPlan &plan, const CompiledKernel &) override {
    ++loads;
    return std::unique_ptr<LoadedKernel>(std::make_unique<Kernel>(*this, plan));
  }
  Result<std::vector<double>> measure(LoadedKernel &, std::span<void *const>, void *, const MeasureOptions &) override {
    return Error{};
  }
  Result<std::unique_ptr<Replay>> makeReplay() override {
    ++replayers;
    return replays ? std::make_unique<Recorder>(*this) : std::unique_ptr<Replay>();
  }

private:
  struct Buffer final : DeviceBuffer {
    explicit Buffer(std::size_t bytes) : bytes(bytes), lines(bytes / sizeof(Line) + 1) {
      std::memset(lines.data(), 0xcd, bytes);
    }
    void *data() const override { return const_cast<Line *>(lines.data()); }
    std::size_t size() const override { return bytes; }
    struct alignas(256) Line { // Devices give memory that is aligned so.
      std::byte bytes[256];
    };
    std::size_t bytes;
    std::vector<Line> lines;
  };

  struct Kernel final : LoadedKernel {
    Kernel(HostDevice &device, codegen::KernelPlan plan) : device(device), plan(std::move(plan)) {}
    Result<void> launch(Stream, std::span<void *const> buffers, void *workspace) override {
      ++device.launches;
      device.workspaces.push_back(workspace);
      auto *a = static_cast<const float *>(buffers[0]), *b = static_cast<const float *>(buffers[1]);
      auto *out = static_cast<float *>(buffers[2]);
      for (std::int64_t i = 0; i < elementCount(plan.outputs[0].shape); ++i)
        out[i] = plan.name == "mul" ? a[i] * b[i] : a[i] + b[i];
      return {};
    }
    HostDevice &device;
    codegen::KernelPlan plan;
  };

  /// Runs at once what it is to replay, and keeps the pointers by which it would keep a graph.
  struct Recorder final : Replay, WorkQueue {
    explicit Recorder(HostDevice &device) : device(device) {}
    Result<bool> isCapturing(Stream) override { return device.capturing; }
    Result<void> launch(Stream, std::span<void *const> pointers, const Work &work) override {
      device.replayed.emplace_back(pointers.begin(), pointers.end());
      return work(*this);
    }
    ReplayCounts counts() const override { return {.captures = static_cast<int>(device.replayed.size())}; }
    Result<void> launch(const KernelRun &run) override {
      device.behind.push_back(run.programmaticLaunch);
      return run.kernel->launch(nullptr, run.buffers, run.workspace);
    }
    Result<void> copy(const Copy &copy) override { return move(copy.to, copy.from, copy.bytes); }
    HostDevice &device;
  };

  static Result<void> move(void *to, const void *from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    return {};
  }

  bool replays;
};

constexpr std::size_t count = 40;

/// Caller's memory for sampleProgram(count).
struct Buffers {
  alignas(16) std::array<float, count> x{}, w{}, s{}, y{}, wCopy{}, sBefore{};

  explicit Buffers(float seed) {
    for (std::size_t i = 0; i < count; ++i) {
      x[i] = seed + static_cast<float>(i);
      w[i] = 2 * seed - static_cast<float>(i % 5);
      s[i] = 100 * seed;
    }
  }
  std::array<void *, 3> arguments() { return {x.data(), w.data(), s.data()}; }
  std::array<void *, 4> results() { return {y.data(), nullptr, wCopy.data(), sBefore.data()}; }

  void checkAfterRun(const Buffers &before) const {
    for (std::size_t i = 0; i < count; ++i) {
      float expected = (x[i] + w[i]) * test::sampleScale(static_cast<std::int64_t>(i));
      CHECK(y[i] == expected);
      CHECK(s[i] == before.s[i] + expected);
      CHECK(wCopy[i] == w[i]);
      CHECK(sBefore[i] == before.s[i]);
    }
  }
};

std::unique_ptr<Context> contextOf(const Program &program, Device &device, ContextOptions options = {}) {
  Result<std::unique_ptr<Context>> context = makeContext(program, device, options);
  REQUIRE_MESSAGE(context, context.error().message);
  return std::move(*context);
}

void runAndCheck(Context &context, Buffers &buffers) {
  Buffers before = buffers;
  Result<void> ran = context.run(nullptr, buffers.arguments(), buffers.results());
  REQUIRE_MESSAGE(ran, ran.error().message);
  buffers.checkAfterRun(before);
}

std::string runError(Context &context, std::span<void *const> arguments, std::span<void *const> results) {
  Result<void> ran = context.run(nullptr, arguments, results);
  REQUIRE_FALSE(ran);
  CHECK(ran.error().code == ErrorCode::Usage);
  return ran.error().message;
}

} // namespace

TEST_CASE("Context: steps, constants, states and pass-throughs, with pointers that change") {
  HostDevice device;
  Program program = test::sampleProgram(count);
  std::unique_ptr<Context> context = contextOf(program, device);
  Buffers first(1), second(3);
  runAndCheck(*context, first);
  runAndCheck(*context, second);
  runAndCheck(*context, first);
  CHECK(device.launches == 9);
  CHECK(context->memoryBytes() == program.arenaBytes + program.constants.size());
}

TEST_CASE("Context: replays by the pointers of the run, but not inside the caller's capture") {
  HostDevice device(true);
  Program program = test::sampleProgram(count);
  std::unique_ptr<Context> context = contextOf(program, device);
  Buffers first(1), second(3);
  auto pointersOf = [](Buffers &buffers) { // The updated state's result is its argument.
    return std::vector<void *>{buffers.x.data(), buffers.w.data(),     buffers.s.data(),      buffers.y.data(),
                               buffers.s.data(), buffers.wCopy.data(), buffers.sBefore.data()};
  };
  runAndCheck(*context, first);
  runAndCheck(*context, second);
  CHECK(device.replayed == std::vector{pointersOf(first), pointersOf(second)});
  CHECK(device.behind == std::vector{false, true, true, false, true, true}); // The first may follow anything.
  CHECK(context->replayCounts().captures == 2);

  device.capturing = true;
  runAndCheck(*context, first);
  device.capturing = false;
  CHECK(device.replayed.size() == 2);

  std::unique_ptr<Context> eager = contextOf(program, device, {.replay = false});
  runAndCheck(*eager, first);
  CHECK(device.replayed.size() == 2);
  CHECK(eager->replayCounts() == ReplayCounts());
}

TEST_CASE("Context: kernels get their zeroed workspace") {
  HostDevice device;
  Program program = test::sampleProgram(count);
  program.kernels[0].plan.zeroedBytes = 512;
  program.kernels[0].plan.workspaceBytes = 1024;
  program.kernels[1].plan.workspaceBytes = 100;
  std::unique_ptr<Context> context = contextOf(program, device);
  Buffers buffers(1);
  runAndCheck(*context, buffers);
  auto *first = static_cast<std::byte *>(device.workspaces[0]);
  CHECK(std::all_of(first, first + 512, [](std::byte byte) { return byte == std::byte{0}; }));
  CHECK(first[512] == std::byte{0xcd});
  CHECK(device.workspaces[1] == first + 512);
}

TEST_CASE("Context: a state may take another argument's value") {
  HostDevice device;
  Program program = test::sampleProgram(count);
  program.steps.pop_back();
  program.passThroughs.push_back({1, {BufferRef::Space::Argument, 0, 0}});
  std::unique_ptr<Context> context = contextOf(program, device);
  Buffers buffers(2), before = buffers;
  REQUIRE(context->run(nullptr, buffers.arguments(), buffers.results()));
  CHECK(buffers.s == before.x);
  CHECK(buffers.sBefore == before.s);
}

TEST_CASE("Context: pointers that do not fit are named") {
  HostDevice device;
  Program program = test::sampleProgram(count);
  std::unique_ptr<Context> context = contextOf(program, device);
  Buffers buffers(1);
  auto arguments = buffers.arguments();
  auto results = buffers.results();
  CHECK(runError(*context, std::span(arguments).first(2), results) == "2 arguments given, expected 3");
  CHECK(runError(*context, arguments, std::span(results).first(1)) == "1 results given, expected 4");
  arguments[1] = nullptr;
  CHECK(runError(*context, arguments, results) == "argument 'w' is null; expected 160 bytes of f32 40");
  arguments = buffers.arguments();
  arguments[0] = buffers.x.data() + 1;
  CHECK(runError(*context, arguments, results).find("argument 'x' is not 16-byte aligned") == 0);
  arguments = buffers.arguments();
  results[0] = nullptr;
  CHECK(runError(*context, arguments, results).find("result 'y' is null") == 0);
  results = buffers.results();
  results[1] = buffers.y.data();
  CHECK(runError(*context, arguments, results) ==
        "result 's_next' is updated in place; pass null or the pointer of argument 's'");
  results[1] = buffers.s.data();
  CHECK(context->run(nullptr, arguments, results));
}

TEST_CASE("Context: what cannot be made is an error") {
  HostDevice device;
  Program program = test::sampleProgram(count);
  for (const auto &[target, runs] : {std::pair("sm_90a", true),
                                     {"sm_90", true},
                                     {"sm_80", false},
                                     {"sm_100a", false},
                                     {"cpu", false},
                                     {"", false}}) {
    INFO(target);
    program.target = target;
    Result<std::unique_ptr<Context>> context = makeContext(program, device);
    CHECK(bool(context) == runs);
    if (!context)
      CHECK(context.error().code == ErrorCode::Usage);
  }
  program = test::sampleProgram(count);
  device.memoryLimit = program.arenaBytes - 1;
  Result<std::unique_ptr<Context>> context = makeContext(program, device);
  REQUIRE_FALSE(context);
  CHECK(context.error().code == ErrorCode::OutOfMemory);
  program.steps[0].kernel = 9;
  context = makeContext(program, device);
  REQUIRE_FALSE(context);
  CHECK(context.error().code == ErrorCode::BadModel);
}

TEST_CASE("BucketContexts: they share one allocation, and runs in turn allocate, load and begin to replay nothing") {
  HostDevice device(true);
  const Program programs[] = {test::sampleProgram(count), test::sampleProgram(count)};
  const Program *const each[] = {&programs[0], &programs[1]};
  Result<BucketContexts> made = BucketContexts::make(device, each, 1, {});
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(device.allocations == 1);
  Buffers first(1), second(3);
  runAndCheck((*made)[0], first);
  runAndCheck((*made)[1], second);
  const std::array before{device.allocations, device.loads, device.replayers};
  for (int turn = 0; turn < 3; ++turn) {
    runAndCheck((*made)[1], first);
    runAndCheck((*made)[0], second);
  }
  CHECK(std::array{device.allocations, device.loads, device.replayers} == before);
}
