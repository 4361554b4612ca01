#include "tuner/CompileAhead.h"

#include "tuner/Trace.h"

#include <algorithm>
#include <exception>

namespace kfuse::tuner {

CompileAhead::CompileAhead(runtime::KernelCompiler &compiler, const std::vector<const codegen::KernelPlan *> &plans,
                           unsigned threads) {
  for (const codegen::KernelPlan *plan : plans) {
    jobs.emplace_back([&compiler, plan]() -> Result<runtime::CompiledKernel> {
      if (!plan)
        return runtime::CompiledKernel{};
      Span span("compile", plan->name);
      return compiler.compile(*plan);
    });
    results.push_back(jobs.back().get_future());
  }
  std::size_t count = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t i = 0; i < std::min(count, jobs.size()); ++i)
    workers.emplace_back([this, isTraced = isTracing()](const std::stop_token &stop) {
      TracedThread traced(isTraced);
      for (std::size_t job = nextJob++; job < jobs.size() && !stop.stop_requested(); job = nextJob++)
        jobs[job]();
    });
}

CompileAhead::~CompileAhead() {
  for (std::jthread &worker : workers)
    worker.request_stop();
}

Result<runtime::CompiledKernel> CompileAhead::take(std::size_t i) {
  try {
    return results[i].get();
  } catch (const std::exception &thrown) { // Out of memory, most likely: one candidate less.
    return Error{ErrorCode::Compile, thrown.what()};
  }
}

void CompileAhead::waitForAll() {
  for (std::future<Result<runtime::CompiledKernel>> &result : results)
    result.wait();
}

} // namespace kfuse::tuner
