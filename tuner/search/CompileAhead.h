// Compiles on a few threads ahead of whoever needs the results.
#pragma once

#include "runtime/Device.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace kfuse::tuner {

/// A pool over one compiler. Plans are known by their tuningKey; each is compiled once for whoever takes it. Plans that
/// differ in launches and buffers alone, as those of neighbouring lengths do, have one code, which is compiled once.
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
  using Compiled = std::shared_ptr<const Result<runtime::CompiledKernel>>;
  struct Job {
    codegen::KernelPlan plan;
    std::string code;       ///< Its codeKey.
    bool hasBegun = false;  ///< It is compiled, or one of the same code is.
    bool isDropped = false; ///< While it is compiled.
    Compiled result{};
  };
  struct Code {
    Compiled result; ///< Null while it is compiled.
    std::uint64_t lastUse = 0;
  };
  void work(const std::stop_token &stop);
  /// Under the lock: the job has what was compiled of its code before.
  bool findCode(Job &job);
  /// Under the lock: the job has its result, and so have all others of the code, unless that is an error.
  void finish(const std::string &key, const std::string &code, const Compiled &result);
  /// Under the lock: a job that has not begun goes before all others.
  void putFirst(const std::string &key);

  runtime::KernelCompiler &compiler;
  const std::size_t threads;
  const std::stop_token stopped;
  std::mutex mutex;
  std::condition_variable_any wake, finished;
  std::map<std::string, Job> jobs;
  std::map<std::string, Code> codes; ///< By codeKey: those used last, and those under way.
  std::uint64_t uses = 0;
  std::deque<std::string> queue; ///< Keys of jobs that have not begun, and of some dropped.
  std::vector<std::jthread> workers;
};

} // namespace kfuse::tuner
