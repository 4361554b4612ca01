// How long a kernel takes on a GPU, as the step of a CUDA graph it will be.
//
// A pair of events around one launch adds one to three microseconds of its own, more than many
// kernels take. So two graphs are timed and subtracted, whatever the kernel's length:
//
//     [kernel] x (n + 1)   minus   [kernel]
//
// A sample is the difference over n: the time by which the kernel lengthens a graph, its start after
// its predecessor included. For kernels of 2 ms and more, whose start is about a thousandth, a sample is one run.
// Cold runs rotate through copies of the kernel's buffers (BufferRotation), so that none finds its operands in the L2
// while the card is as busy, and as hot, as in a model. Evicting the L2 between runs instead leaves the tensor cores
// idle most of the time: they then clock higher, and the tile that wins is another one than back to back (28672 x 4096
// by 256 rows: 128 x 256 instead of 128 x 224, 15 % slower).
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/BufferRotation.h"
#include "runtime/cuda/CudaGraph.h"

namespace kfuse::runtime::cuda {

class CudaTimer {
public:
  static Result<CudaTimer> make(const ContextRef &context, const GpuFacts &facts);

  /// Enqueues one run on the buffers it is given.
  using Run = std::function<Result<void>(Stream, std::span<void *const> buffers)>;

  /// Samples of `run` on `buffers`, or, if they are to be cold, on copies of them in turn. Copies are made once for all
  /// that is prepared for the same buffers at a time. The timer must stay where it is.
  Result<std::unique_ptr<TimedRuns>> prepare(Run run, std::span<void *const> buffers, bool isCold);

  /// Microseconds between events around each of what `run` enqueues, behind a flush of the L2 if it is to be cold, else
  /// behind another run: either keeps the card busy while the host enqueues, so that the host's time does not count.
  Result<std::vector<double>> measureRuns(const Enqueue &run, const MeasureOptions &options);

private:
  class Runs;

  CudaTimer() = default;
  Result<std::shared_ptr<BufferRotation>> rotationOf(std::span<void *const> buffers);
  Result<void> makeResident(const std::shared_ptr<BufferRotation> &rotation);
  /// Runs for `warmupMs` at least and returns the microseconds of one of the last runs. `runUs` is what one takes, as
  /// far as is known, or 0.
  Result<double> warmUp(const Enqueue &run, double warmupMs, double runUs) const;
  Result<void> flush();
  /// Microseconds between events before and after what `enqueue` enqueues, which has ended.
  Result<double> time(const Enqueue &enqueue) const;
  Result<double> time(const GraphExec &graph) const;
  Result<GraphExec> repeat(int times, const Enqueue &enqueue) const;

  ContextRef context;
  StreamHandle stream;
  Event start, stop;
  Memory copies; ///< Where copies of buffers lie.
  std::size_t copiesBytes = 0;
  std::weak_ptr<BufferRotation> resident; ///< The rotation whose copies those are.
};

} // namespace kfuse::runtime::cuda
