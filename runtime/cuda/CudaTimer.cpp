#include "runtime/cuda/CudaTimer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace kfuse::runtime::cuda {
namespace {

constexpr std::size_t evictorPerL2 = 3; // A replacement policy that is not LRU keeps some lines of twice the L2.
constexpr double graphUs = 200;         // Of kernels in one graph: 400 times the resolution of events.
constexpr int maxRunsPerGraph = 32;
constexpr int maxRunsPerWarmUp = 1024;
constexpr unsigned readerThreads = 256, readerBlocksPerSm = 8;

// Reads `count` 16-byte words at `data`. PTX, because the driver compiles it for any device without NVRTC;
// volatile, because nothing uses what is read.
constexpr const char *readerPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry read(.param .u64 data, .param .u64 count)
{
  .reg .pred %done;
  .reg .b32 %block, %threads, %thread, %blocks, %word<4>;
  .reg .b64 %at, %end, %index, %count, %step;
  ld.param.u64 %at, [data];
  ld.param.u64 %count, [count];
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  cvta.to.global.u64 %at, %at;
  shl.b64 %count, %count, 4;
  add.u64 %end, %at, %count;
  mad.lo.u32 %thread, %block, %threads, %thread;
  mul.wide.u32 %index, %thread, 16;
  add.u64 %at, %at, %index;
  mul.lo.u32 %blocks, %blocks, %threads;
  mul.wide.u32 %step, %blocks, 16;
next:
  setp.ge.u64 %done, %at, %end;
  @%done bra finish;
  ld.volatile.global.v4.u32 {%word0, %word1, %word2, %word3}, [%at];
  add.u64 %at, %at, %step;
  bra next;
finish:
  ret;
}
)";

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

Result<CudaTimer> CudaTimer::make(const ContextRef &context, const GpuFacts &facts) {
  Current current(*context);
  CudaTimer timer;
  timer.context = context;
  timer.evictorBytes = evictorPerL2 * facts.l2Bytes;
  timer.readerBlocks = readerBlocksPerSm * static_cast<unsigned>(facts.multiprocessors);
  Result<StreamHandle> stream = makeStream(context);
  if (!stream)
    return stream.error();
  Result<Event> start = makeEvent(context), stop = makeEvent(context);
  if (!start || !stop)
    return (!start ? start : stop).error();
  Result<Memory> evictor = allocate(context, timer.evictorBytes);
  if (!evictor)
    return evictor.error();
  Result<Module> reader = loadModule(context, readerPtx);
  if (!reader)
    return reader.error();
  KFUSE_DRIVER(context->api, cuModuleGetFunction(&timer.read, reader->get(), "read"));
  timer.stream = std::move(*stream);
  timer.start = std::move(*start);
  timer.stop = std::move(*stop);
  timer.evictor = std::move(*evictor);
  timer.reader = std::move(*reader);
  return timer;
}

Result<std::vector<double>> CudaTimer::measure(const Replay::Enqueue &run, const MeasureOptions &options) const {
  Current current(*context);
  auto begin = std::chrono::steady_clock::now();
  Result<double> estimate = warmUp(run, options.warmupMs);
  if (!estimate)
    return estimate.error();
  int n = static_cast<int>(std::clamp(std::ceil(graphUs / std::max(*estimate, 0.1)), 1.0, double(maxRunsPerGraph)));
  auto evictOnly = [this](Stream stream) { return evict(stream); };
  auto evictThenRun = [&](Stream stream) {
    Result<void> evicted = evict(stream);
    return evicted ? run(stream) : evicted;
  };
  Result<GraphExec> base = options.cold ? repeat(n, evictOnly) : repeat(n, run);
  if (!base)
    return base.error();
  Result<GraphExec> full = options.cold ? repeat(n, evictThenRun) : repeat(2 * n, run);
  if (!full)
    return full.error();

  std::vector<double> samples;
  while (static_cast<int>(samples.size()) < std::max(options.repetitions, 1)) {
    Result<double> baseUs = time(*base);
    if (!baseUs)
      return baseUs.error();
    Result<double> fullUs = time(*full);
    if (!fullUs)
      return fullUs.error();
    samples.push_back((*fullUs - *baseUs) / n);
    if (secondsSince(begin) > options.maxSeconds)
      break;
  }
  return samples;
}

Result<void> CudaTimer::evict(Stream stream) const {
  CUdeviceptr data = evictor.get();
  std::uint64_t words = evictorBytes / 16;
  std::array<void *, 2> arguments{&data, &words};
  CUlaunchConfig config{};
  config.gridDimX = readerBlocks;
  config.blockDimX = readerThreads;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.hStream = static_cast<CUstream>(stream);
  KFUSE_DRIVER(context->api, cuLaunchKernelEx(&config, read, arguments.data(), nullptr));
  return {};
}

/// Launches twice as many runs each time, so that the last time is of many and the clocks are up.
Result<double> CudaTimer::warmUp(const Replay::Enqueue &run, double warmupMs) const {
  double spentUs = 0;
  for (int runs = 1;; runs = std::min(2 * runs, maxRunsPerWarmUp)) {
    Result<double> us = time([&](Stream stream) {
      Result<void> enqueued;
      for (int i = 0; i < runs && enqueued; ++i)
        enqueued = run(stream);
      return enqueued;
    });
    if (!us)
      return us;
    spentUs += *us;
    if (spentUs >= warmupMs * 1000)
      return *us / runs;
  }
}

Result<double> CudaTimer::time(const Replay::Enqueue &enqueue) const {
  const DriverApi &api = context->api;
  KFUSE_DRIVER(api, cuEventRecord(start.get(), stream.get()));
  if (Result<void> enqueued = enqueue(stream.get()); !enqueued)
    return enqueued.error();
  KFUSE_DRIVER(api, cuEventRecord(stop.get(), stream.get()));
  KFUSE_DRIVER(api, cuEventSynchronize(stop.get()));
  float milliseconds = 0;
  KFUSE_DRIVER(api, cuEventElapsedTime(&milliseconds, start.get(), stop.get()));
  return milliseconds * 1000.0;
}

Result<double> CudaTimer::time(const GraphExec &graph) const {
  return time([&](Stream stream) -> Result<void> {
    KFUSE_DRIVER(context->api, cuGraphLaunch(graph.get(), static_cast<CUstream>(stream)));
    return {};
  });
}

/// A graph of `times` times what `enqueue` enqueues, launched once: its first launch uploads it.
Result<GraphExec> CudaTimer::repeat(int times, const Replay::Enqueue &enqueue) const {
  Result<Graph> graph = capture(context, stream.get(), [&](Stream recording) {
    Result<void> enqueued;
    for (int i = 0; i < times && enqueued; ++i)
      enqueued = enqueue(recording);
    return enqueued;
  });
  if (!graph)
    return graph.error();
  Result<GraphExec> exec = instantiate(context, *graph);
  if (!exec)
    return exec;
  if (Result<double> launched = time(*exec); !launched)
    return launched.error();
  return exec;
}

} // namespace kfuse::runtime::cuda
