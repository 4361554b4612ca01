#include "runtime/cuda/CudaTimer.h"

#include "runtime/Samples.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

namespace kfuse::runtime::cuda {
namespace {

constexpr std::size_t roomPerL2 = 4; // A replacement policy that is not LRU keeps some lines of twice the L2.
constexpr double graphUs = 200;      // The time of kernels in one graph: 400 times the resolution of events.
constexpr int maxRunsPerGraph = 32;
constexpr double longRunUs = 2000; // What events add does not count beside it.
constexpr int maxRunsPerWarmUp = 1024;
constexpr double steadyShare = 0.98; // A share of the time before: clocks that still rise shorten it by more.
constexpr double longestWarmUpUs = 250e3;

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

/// Two recordings, of one run and of many: see above.
class CudaTimer::Runs final : public TimedRuns {
public:
  Runs(CudaTimer &timer, Run run, std::shared_ptr<BufferRotation> rotation)
      : timer(timer), run(std::move(run)), rotation(std::move(rotation)) {}

  Result<std::vector<double>> measure(const MeasureOptions &options) override {
    Current current(*timer.context);
    auto begin = std::chrono::steady_clock::now();
    if (Result<void> copied = timer.makeResident(rotation); !copied)
      return copied.error();
    auto runNext = [this](Stream stream) { return run(stream, rotation->next()); };
    if (options.warmupMs > 0 || runUs == 0) {
      Result<double> warm = timer.warmUp(runNext, options.warmupMs, runUs);
      if (!warm)
        return warm.error();
      runUs = *warm;
    }
    const bool isLong = !many && runUs > longRunUs;
    if (!many && !isLong)
      if (Result<void> recorded = record(runNext); !recorded)
        return recorded.error();
    return takeSamples(options, begin, [&] { return isLong ? timer.time(runNext) : sample(); });
  }

private:
  Result<double> sample() const {
    Result<double> oneUs = timer.time(*one), manyUs = timer.time(*many);
    if (!oneUs || !manyUs)
      return oneUs ? manyUs : oneUs;
    return (*manyUs - *oneUs) / runs;
  }
  Result<void> record(const Enqueue &runNext) {
    // Whole turns of the rotation, or else its first sets would be used more often than its last.
    const auto sets = static_cast<int>(rotation->count());
    runs = static_cast<int>(std::clamp(std::ceil(graphUs / std::max(runUs, 0.1)), 1.0, double(maxRunsPerGraph)));
    runs = (runs + sets - 1) / sets * sets;
    Result<GraphExec> shorter = timer.repeat(1, runNext);
    if (!shorter)
      return shorter.error();
    Result<GraphExec> longer = timer.repeat(runs + 1, runNext);
    if (!longer)
      return longer.error();
    one = std::move(*shorter);
    many = std::move(*longer);
    return {};
  }

  CudaTimer &timer;
  Run run;
  std::shared_ptr<BufferRotation> rotation;
  double runUs = 0; ///< As the last warm-up took.
  int runs = 0;     ///< How many runs more `many` has than `one`.
  std::optional<GraphExec> one, many;
};

Result<std::unique_ptr<TimedRuns>> CudaTimer::prepare(Run run, std::span<void *const> buffers, bool isCold) {
  Result<std::shared_ptr<BufferRotation>> rotation =
      isCold ? rotationOf(buffers) : std::make_shared<BufferRotation>(BufferRotation::of(buffers));
  if (!rotation)
    return rotation.error();
  return std::unique_ptr<TimedRuns>(std::make_unique<Runs>(*this, std::move(run), std::move(*rotation)));
}

Result<std::shared_ptr<BufferRotation>> CudaTimer::rotationOf(std::span<void *const> buffers) {
  if (std::shared_ptr<BufferRotation> there = resident.lock(); there && there->isOf(buffers))
    return there;
  Result<BufferRotation> rotation = BufferRotation::make(context, buffers, copies.get(), copiesBytes);
  if (!rotation)
    return rotation.error();
  return std::make_shared<BufferRotation>(std::move(*rotation));
}

/// What was prepared for other buffers may have used the room since.
Result<void> CudaTimer::makeResident(const std::shared_ptr<BufferRotation> &rotation) {
  if (rotation->count() == 1 || resident.lock() == rotation)
    return {};
  resident = rotation;
  return rotation->fill(context);
}

Result<std::vector<double>> CudaTimer::measureRuns(const Enqueue &run, const MeasureOptions &options) {
  Current current(*context);
  if (Result<double> warm = warmUp(run, options.warmupMs, 0); !warm)
    return warm.error();
  auto begin = std::chrono::steady_clock::now();
  return takeSamples(options, begin, [&]() -> Result<double> {
    if (Result<void> ahead = options.cold ? flush() : run(stream.get()); !ahead)
      return ahead.error();
    return time(run);
  });
}

/// Launches runs for half of what is missing each time, or twice as many as before, so that the last time is of many,
/// until the clocks are up: after a pause of seconds the card takes up to a fifth of a second to raise them all.
Result<double> CudaTimer::warmUp(const Enqueue &run, double warmupMs, double runUs) const {
  const double wantedUs = warmupMs * 1000;
  auto runsFor = [](double us, double each, double most) {
    return static_cast<int>(std::clamp(std::ceil(us / std::max(each, 0.1)), 1.0, most));
  };
  double spentUs = 0, before = INFINITY;
  for (int runs = runUs > 0 ? runsFor(wantedUs / 2, runUs, maxRunsPerWarmUp) : 1;;) {
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
    if (spentUs >= wantedUs && (isSteady || warmupMs == 0 || spentUs >= longestWarmUpUs))
      return before;
    if (spentUs < wantedUs)
      runs = runsFor(wantedUs - spentUs, before, std::min(2 * runs, maxRunsPerWarmUp));
  }
}

/// Writes several times the L2, so that nothing else stays in it, nor any copies where they lay.
Result<void> CudaTimer::flush() {
  resident.reset();
  KFUSE_DRIVER(context->api, cuMemsetD8Async(copies.get(), 0, copiesBytes, stream.get()));
  return {};
}

Result<double> CudaTimer::time(const Enqueue &enqueue) const {
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
Result<GraphExec> CudaTimer::repeat(int times, const Enqueue &enqueue) const {
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
