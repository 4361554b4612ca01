#include "tuner/search/CompileAhead.h"

#include "tuner/record/Trace.h"

#include <algorithm>
#include <exception>

namespace kfuse::tuner {
namespace {

Result<runtime::CompiledKernel> compileOrFail(runtime::KernelCompiler &compiler, const codegen::KernelPlan &plan) {
  Span span("compile", plan.name);
  try {
    return compiler.compile(plan);
  } catch (const std::exception &thrown) { // Out of memory, most likely: one candidate less.
    return Error{ErrorCode::Compile, thrown.what()};
  }
}

} // namespace

CompileAhead::CompileAhead(runtime::KernelCompiler &compiler, unsigned threads, std::stop_token stop)
    : compiler(compiler), threads(threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency())),
      stopped(std::move(stop)) {}

CompileAhead::~CompileAhead() {
  for (std::jthread &worker : workers)
    worker.request_stop();
}

void CompileAhead::want(const std::string &key, const codegen::KernelPlan &plan) {
  std::scoped_lock lock(mutex);
  const auto [found, isNew] = jobs.try_emplace(key, Job{.plan = plan, .result = {}});
  found->second.isDropped = false;
  if (isNew)
    queue.push_back(key);
  if (workers.size() < std::min(threads, jobs.size()))
    workers.emplace_back([this, isTraced = isTracing()](const std::stop_token &stop) {
      TracedThread traced(isTraced);
      work(stop);
    });
  wake.notify_one();
}

void CompileAhead::wantFirst(const std::string &key, const codegen::KernelPlan &plan) {
  want(key, plan);
  std::scoped_lock lock(mutex);
  putFirst(key);
}

void CompileAhead::putFirst(const std::string &key) {
  if (const auto found = jobs.find(key); found == jobs.end() || found->second.hasBegun)
    return;
  queue.push_front(key);
  wake.notify_one();
}

void CompileAhead::work(const std::stop_token &stop) {
  std::unique_lock lock(mutex);
  while (wake.wait(lock, stop, [this] { return !queue.empty(); }) && !stop.stop_requested()) {
    const std::string key = std::move(queue.front());
    queue.pop_front();
    auto found = jobs.find(key);
    if (found == jobs.end() || found->second.hasBegun)
      continue;
    if (stopped.stop_requested())
      continue;
    Job &job = found->second; // Stays where it is, and nobody else touches it, until it has a result.
    job.hasBegun = true;
    lock.unlock();
    Result<runtime::CompiledKernel> result = compileOrFail(compiler, job.plan);
    lock.lock();
    job.result.emplace(std::move(result));
    if (job.isDropped)
      jobs.erase(found);
    finished.notify_all();
  }
}

Result<runtime::CompiledKernel> CompileAhead::take(const std::string &key, const codegen::KernelPlan &plan) {
  want(key, plan);
  std::unique_lock lock(mutex);
  Job &job = jobs.at(key);
  putFirst(key);
  if (!finished.wait(lock, stopped, [&] { return job.result.has_value(); }))
    return Error{ErrorCode::Cancelled, "tuning was cancelled while kernel " + plan.name + " compiled"};
  Result<runtime::CompiledKernel> result = std::move(*job.result);
  jobs.erase(key);
  return result;
}

void CompileAhead::drop(const std::string &key) {
  std::scoped_lock lock(mutex);
  auto found = jobs.find(key);
  if (found == jobs.end())
    return;
  found->second.isDropped = true;
  if (!found->second.hasBegun || found->second.result)
    jobs.erase(found);
}

void CompileAhead::finishBy(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex);
  auto haveEnded = [&] {
    return std::all_of(jobs.begin(), jobs.end(), [](const auto &job) { return job.second.result.has_value(); });
  };
  if (finished.wait_until(lock, stopped, deadline, haveEnded))
    return;
  std::erase_if(jobs, [](const auto &job) { return !job.second.hasBegun; });
  finished.wait(lock, stopped, haveEnded);
}

bool CompileAhead::isReady(const std::string &key) {
  std::scoped_lock lock(mutex);
  auto found = jobs.find(key);
  return found != jobs.end() && found->second.result;
}

} // namespace kfuse::tuner
