#include "runtime/cuda/CudaTimer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace kfuse::runtime::cuda {
namespace {

constexpr std::size_t roomPerL2 = 4; // A replacement policy that is not LRU keeps some lines of twice the L2.
constexpr double graphUs = 200;      // Of kernels in one graph: 400 times the resolution of events.
constexpr int maxRunsPerGraph = 32;
constexpr int maxRunsPerWarmUp = 1024;
constexpr double steadyShare = 0.98; // Of the time before: clocks that still rise shorten it by more.
constexpr double longestWarmUpUs = 250e3;

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

Result<CudaTimer> CudaTimer::make(const ContextRef &context, const GpuFacts &facts) {
  CudaTimer timer;
  timer.context = context;
  timer.copiesBytes = roomPerL2 * facts.l2Bytes;
  Result<StreamHandle> stream = makeStream(context);
  if (!stream)
    return stream.error();
  Result<Event> start = makeEvent(context), stop = makeEvent(context);
  if (!start || !stop)
    return (!start ? start : stop).error();
  Result<Memory> copies = allocate(context, timer.copiesBytes);
  if (!copies)
    return copies.error();
  timer.stream = std::move(*stream);
  timer.start = std::move(*start);
  timer.stop = std::move(*stop);
  timer.copies = std::move(*copies);
  return timer;
}

Result<std::vector<double>> CudaTimer::measure(const Run &run, std::span<void *const> buffers,
                                               const MeasureOptions &options) const {
  Current current(*context);
  auto begin = std::chrono::steady_clock::now();
  Result<BufferRotation> rotation =
      options.cold ? BufferRotation::make(context, buffers, copies.get(), copiesBytes) : BufferRotation::of(buffers);
  if (!rotation)
    return rotation.error();
  auto runNext = [&](Stream stream) { return run(stream, rotation->next()); };
  Result<double> estimate = warmUp(runNext, options.warmupMs);
  if (!estimate)
    return estimate.error();
  // Whole turns of the rotation, or else its first sets would be used more often than its last.
  const auto sets = static_cast<int>(rotation->count());
  int n = static_cast<int>(std::clamp(std::ceil(graphUs / std::max(*estimate, 0.1)), 1.0, double(maxRunsPerGraph)));
  n = (n + sets - 1) / sets * sets;
  Result<GraphExec> base = repeat(1, runNext);
  if (!base)
    return base.error();
  Result<GraphExec> full = repeat(n + 1, runNext);
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

Result<std::vector<double>> CudaTimer::measureRuns(const Replay::Enqueue &run, const MeasureOptions &options) const {
  Current current(*context);
  if (Result<double> warm = warmUp(run, options.warmupMs); !warm)
    return warm.error();
  auto begin = std::chrono::steady_clock::now();
  std::vector<double> samples;
  while (static_cast<int>(samples.size()) < std::max(options.repetitions, 1)) {
    if (Result<void> ahead = options.cold ? flush() : run(stream.get()); !ahead)
      return ahead.error();
    Result<double> us = time(run);
    if (!us)
      return us.error();
    samples.push_back(*us);
    if (secondsSince(begin) > options.maxSeconds)
      break;
  }
  return samples;
}

/// Launches twice as many runs each time, so that the last time is of many, until the clocks are up: after a
/// pause of seconds the card takes up to a fifth of a second to raise them all.
Result<double> CudaTimer::warmUp(const Replay::Enqueue &run, double warmupMs) const {
  double spentUs = 0, before = INFINITY;
  for (int runs = 1;;) {
    Result<double> us = time([&](Stream stream) {
      Result<void> enqueued;
      for (int i = 0; i < runs && enqueued; ++i)
        enqueued = run(stream);
      return enqueued;
    });
    if (!us)
      return us;
    spentUs += *us;
    const bool isSteady = *us / runs > steadyShare * before;
    before = *us / runs;
    if (spentUs >= warmupMs * 1000 && (isSteady || warmupMs == 0 || spentUs >= longestWarmUpUs))
      return before;
    if (*us < warmupMs * 1000)
      runs = std::min(2 * runs, maxRunsPerWarmUp);
  }
}

/// Writes several times the L2, so that nothing else stays in it.
Result<void> CudaTimer::flush() const {
  KFUSE_DRIVER(context->api, cuMemsetD8Async(copies.get(), 0, copiesBytes, stream.get()));
  return {};
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
