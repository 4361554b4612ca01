// What the tuner does when: a trace for Chrome or Perfetto, and NVTX ranges for NVIDIA's profilers.
#pragma once

#include "kfuse/error.h"

#include <string>

namespace kfuse::tuner {

/// Records from its making on, on the thread that made it and on those that have a TracedThread. LLVM's time profiler
/// keeps the record, so that the passes of a CPU kernel's compilation show too. One at a time.
class Trace {
public:
  Trace();
  ~Trace();
  Trace(const Trace &) = delete;
  Trace &operator=(const Trace &) = delete;

  /// Trace event format, JSON. The traced threads must have ended.
  Result<void> write(const std::string &path);
};

/// Lives on a thread that works for one that is traced.
class TracedThread {
public:
  /// `isTraced`: what isTracing() says on the thread that is worked for.
  explicit TracedThread(bool isTraced);
  ~TracedThread();
  TracedThread(const TracedThread &) = delete;
  TracedThread &operator=(const TracedThread &) = delete;

private:
  bool isTraced;
};

/// Whether this thread is traced.
bool isTracing();

/// One step, from its making to its end; steps of one thread nest.
class Span {
public:
  /// `name` is the kind of step: "compile"; `detail` what it works on.
  Span(const char *name, const std::string &detail);
  ~Span();
  Span(const Span &) = delete;
  Span &operator=(const Span &) = delete;

private:
  bool isTraced;
};

} // namespace kfuse::tuner
