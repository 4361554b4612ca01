// How long a kernel takes on a GPU, as the step of a CUDA graph it will be.
//
// A pair of events around one launch adds one to three microseconds of its own, more than many
// kernels take. So two graphs are timed and subtracted, whatever the kernel's length:
//
//     cold:  [evict, kernel] x n   minus   [evict] x n          warm:  [kernel] x 2n   minus   [kernel] x n
//
// A sample is the difference over n: the time by which the kernel lengthens a graph, its start after
// its predecessor included. Single samples of kernels below 2 us may scatter by 0.2 us.
//
// Eviction reads a buffer of three times the L2. Writing one instead would leave the L2 full of
// dirty lines whose write-back the kernel then pays for: 50 MB on an H100, 15 us of its DRAM.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/CudaGraph.h"

namespace kfuse::runtime::cuda {

class CudaTimer {
public:
  static Result<CudaTimer> make(const ContextRef &context, const GpuFacts &facts);

  /// Microseconds of each sample of what `run` enqueues.
  Result<std::vector<double>> measure(const Replay::Enqueue &run, const MeasureOptions &options) const;

private:
  CudaTimer() = default;
  /// Enqueues the eviction of all that the L2 holds.
  Result<void> evict(Stream stream) const;
  /// Runs for `warmupMs` at least and returns the microseconds of one of the last runs.
  Result<double> warmUp(const Replay::Enqueue &run, double warmupMs) const;
  /// Microseconds between events before and after what `enqueue` enqueues, which has ended.
  Result<double> time(const Replay::Enqueue &enqueue) const;
  Result<double> time(const GraphExec &graph) const;
  Result<GraphExec> repeat(int times, const Replay::Enqueue &enqueue) const;

  ContextRef context;
  StreamHandle stream;
  Event start, stop;
  Module reader; ///< The kernel that evicts.
  CUfunction read = nullptr;
  Memory evictor; ///< What it reads.
  std::size_t evictorBytes = 0;
  unsigned readerBlocks = 0;
};

} // namespace kfuse::runtime::cuda
