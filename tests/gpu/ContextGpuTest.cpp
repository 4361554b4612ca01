#include "tests/gpu/Gpu.h"
#include "tests/unit/SampleProgram.h"

#include <array>
#include <chrono>
#include <optional>
#include <thread>

using namespace kfuse;
using namespace kfuse::test;
using runtime::BufferRef;
using runtime::Program;

namespace {

constexpr std::size_t count = 1000;

/// Caller's memory for sampleProgram(count), and what runs should have made of it.
class Sample {
public:
  Sample(Gpu &gpu, float seed)
      : seed(seed), x(gpu, valuesOf(seed, 1)), w(gpu, valuesOf(seed, -2)), s(gpu, valuesOf(seed, 3)), y(gpu, count),
        wCopy(gpu, count), sBefore(gpu, count) {}

  std::array<void *, 3> arguments() const { return {x.data(), w.data(), s.data()}; }
  std::array<void *, 4> results() const { return {y.data(), nullptr, wCopy.data(), sBefore.data()}; }

  void run(runtime::Context &context, runtime::Stream stream) { succeed(context.run(stream, arguments(), results())); }

  /// That `runs` runs on these buffers have ended.
  void check(int runs) const {
    std::vector<float> ys = y.read(), states = s.read(), ws = wCopy.read(), before = sBefore.read();
    std::vector<float> xs = valuesOf(seed, 1), weights = valuesOf(seed, -2), state = valuesOf(seed, 3);
    for (std::size_t i = 0; i < count; ++i) {
      float expected = (xs[i] + weights[i]) * sampleScale(static_cast<std::int64_t>(i));
      float last = state[i];
      for (int run = 1; run < runs; ++run)
        last += expected;
      REQUIRE(ys[i] == expected);
      REQUIRE(before[i] == last);
      REQUIRE(states[i] == last + expected);
      REQUIRE(ws[i] == weights[i]);
    }
  }

private:
  static std::vector<float> valuesOf(float seed, float factor) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = seed + factor * static_cast<float>(i % 32);
    return values;
  }

  float seed;
  GpuArray x, w, s, y, wCopy, sBefore;
};

std::unique_ptr<runtime::Context> contextOf(const Program &program, Gpu &gpu, runtime::ContextOptions options = {}) {
  return take(makeContext(program, *gpu.device, options));
}

/// A producer that lets its successor start at once and only then writes, and a consumer that waits
/// for it: out[i] = 2 * (in[i] + 1), through the workspace.
Program dependentProgram() {
  codegen::KernelPlan plan;
  plan.name = "dependent";
  plan.source = R"(
extern "C" __global__ void produce(const float *in, float *between) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
  for (int i = 0; i < 20; ++i)
    __nanosleep(1000);
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  between[i] = in[i] + 1;
}
extern "C" __global__ void consume(const float *between, float *out) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 2 * between[i];
}
)";
  plan.inputs = plan.outputs = {{DType::F32, {1024}}};
  plan.workspaceBytes = 4096;
  for (const char *entry : {"produce", "consume"}) {
    codegen::Launch launch;
    launch.entry = entry;
    launch.grid = {8, 1, 1};
    launch.block = {128, 1, 1};
    launch.programmaticLaunch = true;
    plan.launches.push_back(launch);
  }
  using Kind = codegen::KernelArg::Kind;
  plan.launches[0].args = {{Kind::Buffer, 0}, {Kind::Workspace, 0}};
  plan.launches[1].args = {{Kind::Workspace, 0}, {Kind::Buffer, 1}};

  // Twice in a row: out = 2 * (2 * (in + 1) + 1), after a copy of `in`.
  Program program;
  program.name = "dependent";
  program.arguments = {{"in", DType::F32, {1024}}};
  program.roles = {Role::Input};
  program.results = {{"out", DType::F32, {1024}}, {"copy", DType::F32, {1024}}};
  program.resultState = {-1, -1};
  program.kernels = {{plan, {}}};
  BufferRef in{BufferRef::Space::Argument, 0, 0}, between{}, out{BufferRef::Space::Result, 0, 0};
  program.steps = {{0, {in, between}}, {0, {between, out}}};
  program.passThroughs = {{1, in}};
  program.arenaBytes = 4096;
  return program;
}

/// counter(): adds its 37 blocks up in zeroed workspace, leaves that zero again, and writes the sum. A
/// second kernel dirties its own scratch meanwhile.
Program counterProgram() {
  codegen::KernelPlan counter;
  counter.name = "counter";
  counter.source = "extern \"C\" __global__ void counter(unsigned *arrived, float *out) {\n"
                   "  if (atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1)\n"
                   "    out[0] = gridDim.x;\n"
                   "}\n";
  counter.outputs = {{DType::F32, {1}}};
  counter.workspaceBytes = counter.zeroedBytes = 256;
  codegen::Launch launch;
  launch.entry = "counter";
  launch.grid = {37, 1, 1};
  launch.args = {{codegen::KernelArg::Kind::Workspace, 0}, {codegen::KernelArg::Kind::Buffer, 0}};
  counter.launches = {launch};

  codegen::KernelPlan dirty = counter;
  dirty.name = "dirty";
  dirty.source = "extern \"C\" __global__ void dirty(unsigned *scratch, float *out) {\n"
                 "  scratch[threadIdx.x] = ~0u;\n"
                 "  out[0] = 1;\n"
                 "}\n";
  dirty.workspaceBytes = 1024;
  dirty.zeroedBytes = 0;
  dirty.launches[0].entry = "dirty";
  dirty.launches[0].block = {256, 1, 1};

  Program program;
  program.name = "counters";
  program.results = {{"first", DType::F32, {1}}, {"second", DType::F32, {1}}, {"third", DType::F32, {1}}};
  program.resultState = {-1, -1, -1};
  program.kernels = {{counter, {}}, {dirty, {}}};
  auto result = [](std::uint32_t index) { return BufferRef{BufferRef::Space::Result, index, 0}; };
  program.steps = {{0, {result(0)}}, {1, {result(1)}}, {0, {result(2)}}};
  return program;
}

} // namespace

TEST_CASE("Context on a GPU: step by step and as a graph, on any stream, with pointers that change") {
  Gpu gpu;
  Program program = gpu.compile(sampleProgram(count));
  for (bool replay : {false, true})
    for (bool ownStream : {false, true}) {
      CAPTURE(replay);
      CAPTURE(ownStream);
      auto context = contextOf(program, gpu, {.replay = replay});
      runtime::cuda::StreamHandle own = gpu.stream();
      runtime::Stream stream = ownStream ? own.get() : nullptr;
      Sample first(gpu, 1), second(gpu, 7);
      // All enqueued before any ends: an update must not reach runs already under way.
      first.run(*context, stream);
      second.run(*context, stream);
      first.run(*context, stream);
      first.run(*context, stream);
      second.run(*context, stream);
      gpu.synchronize(stream);
      first.check(3);
      second.check(2);
    }
}

TEST_CASE("Context on a GPU: a program that was written to bytes and read back") {
  Gpu gpu;
  Program compiled = gpu.compile(sampleProgram(count));
  for (runtime::ProgramKernel &kernel : compiled.kernels)
    kernel.plan.source.clear();
  Program program = take(Program::deserialise(compiled.serialise()));
  auto context = contextOf(program, gpu);
  Sample sample(gpu, 2);
  sample.run(*context, nullptr);
  gpu.synchronize();
  sample.check(1);
}

TEST_CASE("Context on a GPU: inside the caller's own capture") {
  Gpu gpu;
  Program program = gpu.compile(sampleProgram(count));
  auto context = contextOf(program, gpu);
  runtime::cuda::StreamHandle stream = gpu.stream();
  Sample sample(gpu, 1), other(gpu, 4);
  other.run(*context, stream.get()); // Its own graph exists already.

  runtime::cuda::Current current(*gpu.context);
  REQUIRE(gpu.api.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  sample.run(*context, stream.get());
  sample.run(*context, stream.get());
  CUgraph handle = nullptr;
  REQUIRE(gpu.api.cuStreamEndCapture(stream.get(), &handle) == CUDA_SUCCESS);
  runtime::cuda::Graph graph(gpu.context, handle);
  CUgraphExec execHandle = nullptr;
  REQUIRE(gpu.api.cuGraphInstantiate(&execHandle, graph.get(), 0) == CUDA_SUCCESS);
  runtime::cuda::GraphExec exec(gpu.context, execHandle);
  for (int i = 0; i < 3; ++i)
    REQUIRE(gpu.api.cuGraphLaunch(exec.get(), stream.get()) == CUDA_SUCCESS);
  other.run(*context, stream.get());
  gpu.synchronize(stream.get());
  sample.check(6);
  other.check(2);
}

TEST_CASE("Context on a GPU: threads share a program, each with its context and stream") {
  Gpu gpu;
  const Program program = gpu.compile(sampleProgram(count));
  constexpr int threadCount = 4, runs = 50;
  std::vector<std::unique_ptr<Sample>> samples;
  std::array<std::string, threadCount> failures;
  std::vector<std::thread> threads;
  for (int i = 0; i < threadCount; ++i)
    samples.push_back(std::make_unique<Sample>(gpu, static_cast<float>(i)));
  for (int i = 0; i < threadCount; ++i)
    threads.emplace_back([&, i] {
      auto fail = [&](const Error &error) { failures[i] = error.message; };
      auto context = makeContext(program, *gpu.device); // Allocates while others record.
      auto stream = runtime::cuda::makeStream(gpu.context);
      if (!context || !stream)
        return fail(!context ? context.error() : stream.error());
      for (int run = 0; run < runs; ++run)
        if (auto ran = (*context)->run(stream->get(), samples[i]->arguments(), samples[i]->results()); !ran)
          return fail(ran.error());
      if (auto ended = gpu.device->synchronize(stream->get()); !ended)
        fail(ended.error());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int i = 0; i < threadCount; ++i) {
    CHECK(failures[i].empty());
    samples[i]->check(runs);
  }
}

TEST_CASE("Context on a GPU: dependent launches wait by themselves") {
  Gpu gpu;
  if (!gpu.isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  Program program = gpu.compile(dependentProgram());
  for (bool replay : {false, true}) {
    CAPTURE(replay);
    auto context = contextOf(program, gpu, {.replay = replay});
    runtime::cuda::StreamHandle stream = gpu.stream();
    for (float seed : {1.0F, 2.0F, 3.0F}) { // New buffers each: the graph is updated.
      GpuArray in(gpu, std::vector<float>(1024, seed)), out(gpu, 1024), copy(gpu, 1024);
      std::array<void *, 1> arguments{in.data()};
      std::array<void *, 2> results{out.data(), copy.data()};
      succeed(context->run(stream.get(), arguments, results));
      succeed(context->run(stream.get(), arguments, results));
      gpu.synchronize(stream.get());
      CHECK(out.read() == std::vector<float>(1024, 4 * seed + 6));
      CHECK(copy.read() == std::vector<float>(1024, seed));
    }
  }
}

TEST_CASE("Context on a GPU: zeroed workspace stays zero beside another kernel's scratch") {
  Gpu gpu;
  Program program = gpu.compile(counterProgram());
  auto context = contextOf(program, gpu);
  for (int run = 0; run < 3; ++run) {
    GpuArray first(gpu, 1), second(gpu, 1), third(gpu, 1);
    std::array<void *, 3> results{first.data(), second.data(), third.data()};
    succeed(context->run(nullptr, {}, results));
    gpu.synchronize();
    CHECK(first.read()[0] == 37);
    CHECK(second.read()[0] == 1);
    CHECK(third.read()[0] == 37);
  }
}

TEST_CASE("Context on a GPU: no memory is an error") {
  Gpu gpu;
  Program program = gpu.compile(sampleProgram(count));
  program.arenaBytes = std::uint64_t(1) << 45;
  auto context = makeContext(program, *gpu.device);
  REQUIRE_FALSE(context);
  CHECK(context.error().code == ErrorCode::OutOfMemory);
  CHECK(context.error().message.find("35184372088832 bytes") != std::string::npos);
}

TEST_CASE("Context on a GPU: host time of a run, with pointers that stay, come again, and never come again") {
  Gpu gpu;
  Program program = gpu.compile(sampleProgram(count));
  Program longer = program; // 64 times the steps: as many kernels as a few decoder blocks.
  for (int i = 1; i < 64; ++i)
    longer.steps.insert(longer.steps.end(), program.steps.begin(), program.steps.end());
  for (const Program *each : {&program, &longer}) {
    auto context = contextOf(*each, gpu);
    runtime::cuda::StreamHandle stream = gpu.stream();
    constexpr int runs = 50;
    // More sets than graphs are kept: taken in turn, none is there when it comes again.
    std::vector<std::unique_ptr<Sample>> samples;
    for (int i = 0; i < 8; ++i)
      samples.push_back(std::make_unique<Sample>(gpu, static_cast<float>(i)));
    auto hostUs = [&](std::size_t sets) {
      double us = 0;
      for (std::size_t i = 0; i < runs; ++i) {
        const Sample &sample = *samples[i % sets];
        const auto arguments = sample.arguments();
        const auto results = sample.results();
        auto begin = std::chrono::steady_clock::now();
        succeed(context->run(stream.get(), arguments, results));
        us += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
        gpu.synchronize(stream.get());
      }
      return us / runs;
    };
    hostUs(2); // Makes their graphs.
    const runtime::ReplayCounts warm = context->replayCounts();
    CHECK(warm.captures == 1);
    double same = hostUs(1), inTurn = hostUs(2);
    CHECK(context->replayCounts() == warm);
    double fresh = hostUs(samples.size());
    CHECK(context->replayCounts().captures == 1);
    MESSAGE(each->steps.size() << " kernels: " << same << " us a run, " << inTurn << " us with two sets of pointers, "
                               << fresh << " us with others each time");
    CHECK(inTurn < 10);
    CHECK(fresh < 5.0 * static_cast<double>(each->steps.size()) + 100);
  }
}
