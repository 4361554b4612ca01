// How a run's work reaches a device: launch by launch on a stream, or as a graph that is recorded once and replayed.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <functional>
#include <span>

namespace kfuse::runtime {

class LoadedKernel;

/// A queue of work; null is the device's default stream. A CUstream on a GPU.
using Stream = void *;

/// Enqueues work on the stream it is given.
using Enqueue = std::function<Result<void>(Stream)>;

/// One run of a kernel: LoadedKernel::launch, or launchProgrammatic.
struct KernelRun {
  LoadedKernel *kernel = nullptr;
  std::span<void *const> buffers; ///< Valid during the call that takes it.
  void *workspace = nullptr;
  bool programmaticLaunch = false;
};

/// A copy from device memory to device memory that does not overlap it.
struct Copy {
  void *to = nullptr;
  const void *from = nullptr;
  std::size_t bytes = 0; ///< More than 0.
};

/// Takes the work of one run of a program, in its order.
class WorkQueue {
public:
  virtual ~WorkQueue() = default;
  virtual Result<void> launch(const KernelRun &run) = 0;
  virtual Result<void> copy(const Copy &copy) = 0;
};

/// What replays did so far. A run whose graph was there adds to none of them.
struct ReplayCounts {
  int captures = 0;       ///< Recordings of a whole run.
  int instantiations = 0; ///< Graphs made executable.
  int patches = 0;        ///< Graphs whose pointers were exchanged for others.
  friend bool operator==(const ReplayCounts &, const ReplayCounts &) = default;
};

/// A program's run, recorded once and replayed with a single launch: CUDA graphs. Not thread-safe.
class Replay {
public:
  using Work = std::function<Result<void>(WorkQueue &)>;

  virtual ~Replay() = default;
  /// Whether `stream` is under its owner's own capture, where a replay must not be launched.
  virtual Result<bool> isCapturing(Stream stream) = 0;
  /// Enqueues `work` on `stream` as one launch. What `work` gives a queue is decided by `pointers`, by which graphs are
  /// kept. Runs already enqueued keep the pointers that they had.
  virtual Result<void> launch(Stream stream, std::span<void *const> pointers, const Work &work) = 0;
  virtual ReplayCounts counts() const = 0;
};

} // namespace kfuse::runtime
