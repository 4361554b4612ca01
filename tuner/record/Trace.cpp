#include "tuner/record/Trace.h"

#include "llvm/Support/TimeProfiler.h"
#include "llvm/Support/raw_ostream.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h> // Does nothing until a profiler has loaded its library into the process.
#define KFUSE_NVTX 1
#endif

namespace kfuse::tuner {
namespace {

constexpr unsigned leastMicroseconds = 10; // LLVM's passes have many steps that are shorter.

void beginOnThisThread() { llvm::timeTraceProfilerInitialize(leastMicroseconds, "kfuse"); }

} // namespace

Trace::Trace() { beginOnThisThread(); }
Trace::~Trace() { llvm::timeTraceProfilerCleanup(); }

Result<void> Trace::write(const std::string &path) {
  std::error_code failed;
  llvm::raw_fd_ostream file(path, failed);
  if (!failed) {
    llvm::timeTraceProfilerWrite(file);
    file.close();
    failed = file.error();
    file.clear_error();
  }
  return failed ? Error{ErrorCode::Io, "the trace " + path + " cannot be written: " + failed.message()}
                : Result<void>();
}

TracedThread::TracedThread(bool isTraced) : isTraced(isTraced) {
  if (isTraced)
    beginOnThisThread();
}

TracedThread::~TracedThread() {
  if (isTraced)
    llvm::timeTraceProfilerFinishThread();
}

bool isTracing() { return llvm::timeTraceProfilerEnabled(); }

Span::Span(const char *name, const std::string &detail) : isTraced(isTracing()) {
  if (isTraced)
    llvm::timeTraceProfilerBegin(name, llvm::StringRef(detail));
#ifdef KFUSE_NVTX
  nvtxRangePushA((std::string(name) + " " + detail).c_str());
#endif
}

Span::~Span() {
#ifdef KFUSE_NVTX
  nvtxRangePop();
#endif
  if (isTraced)
    llvm::timeTraceProfilerEnd();
}

} // namespace kfuse::tuner
