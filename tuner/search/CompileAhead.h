// Compiles on a few threads ahead of whoever needs the results.
#pragma once

#include "runtime/Device.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace kfuse::tuner {

/// A pool over one compiler. Plans are known by their tuningKey; each is compiled once for whoever takes it.
class CompileAhead {
public:
  /// `compiler` must outlive it; `threads` 0 stands for one per core. Threads start with the first plan. Once `stop`
  /// asks for it nothing is begun or waited for any more.
  CompileAhead(runtime::KernelCompiler &compiler, unsigned threads, std::stop_token stop = {});
  /// Waits for the compilations under way; those not begun are dropped.
  ~CompileAhead();

  /// Queues the plan behind all others.
  void want(const std::string &key, const codegen::KernelPlan &plan);
  /// Queues it in front of all others, also where it was wanted before.
  void wantFirst(const std::string &key, const codegen::KernelPlan &plan);
  /// Waits for the plan, wanted before or not, which goes before all others that have not begun. Cancelled when
  /// stopped.
  Result<runtime::CompiledKernel> take(const std::string &key, const codegen::KernelPlan &plan);
  /// Forgets a plan and its result; one that is being compiled, when it ends.
  void drop(const std::string &key);
  /// Waits until all have ended, or until the deadline; then it drops what has not begun.
  void finishBy(std::chrono::steady_clock::time_point deadline);
  /// Whether take() need not wait.
  bool isReady(const std::string &key);

private:
  struct Job {
    codegen::KernelPlan plan;
    bool hasBegun = false;
    bool isDropped = false; ///< While it is compiled.
    std::optional<Result<runtime::CompiledKernel>> result;
  };
  void work(const std::stop_token &stop);
  /// Under the lock: a job that has not begun goes before all others.
  void putFirst(const std::string &key);

  runtime::KernelCompiler &compiler;
  const std::size_t threads;
  const std::stop_token stopped;
  std::mutex mutex;
  std::condition_variable_any wake, finished;
  std::map<std::string, Job> jobs;
  std::deque<std::string> queue; ///< Keys of jobs that have not begun, and of some dropped.
  std::vector<std::jthread> workers;
};

} // namespace kfuse::tuner
