#include "tuner/search/CompileAhead.h"

#include "tuner/record/Key.h"
#include "tuner/record/Trace.h"

#include <algorithm>
#include <exception>

namespace kfuse::tuner {
namespace {

/// Machine code and PTX of a product are 0.2 to 0.4 MB; four buckets of lengths have as many kernels and candidates.
constexpr std::size_t mostCodes = 128;

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
  const auto [found, isNew] = jobs.try_emplace(key, Job{.plan = plan, .code = codeKey(plan)});
  found->second.isDropped = false;
  if (isNew && !findCode(found->second))
    queue.push_back(key);
  if (workers.size() < std::min(threads, jobs.size()))
    workers.emplace_back([this, isTraced = isTracing()](const std::stop_token &stop) {
      TracedThread traced(isTraced);
      work(stop);
    });
  wake.notify_one();
}

bool CompileAhead::findCode(Job &job) {
  const auto known = codes.find(job.code);
  if (known == codes.end())
    return false;
  known->second.lastUse = ++uses;
  job.hasBegun = true;
  job.result = known->second.result;
  return true;
}

void CompileAhead::finish(const std::string &key, const std::string &code, const Compiled &result) {
  codes[code] = {result, ++uses};
  if (!*result) // It may have been short of memory.
    codes.erase(code);
  for (auto entry = jobs.begin(); entry != jobs.end();) {
    Job &job = entry->second;
    const bool waits = job.hasBegun && !job.result && job.code == code;
    if (waits && job.isDropped) {
      entry = jobs.erase(entry);
      continue;
    }
    if (waits && (*result || entry->first == key)) {
      job.result = result;
    } else if (waits) { // An error names its plan, and another time memory may do.
      job.hasBegun = false;
      queue.push_back(entry->first);
      wake.notify_one();
    }
    ++entry;
  }
  while (codes.size() > mostCodes) {
    const auto oldest = std::ranges::min_element(
        codes, {}, [&](const auto &entry) { return entry.second.result ? entry.second.lastUse : uses + 1; });
    if (!oldest->second.result)
      break;
    codes.erase(oldest);
  }
  finished.notify_all();
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
    Job &job = found->second; // Stays where it is, and nobody else touches its plan, until it has a result.
    if (findCode(job)) {
      finished.notify_all();
      continue;
    }
    job.hasBegun = true;
    codes[job.code] = {};
    const std::string code = job.code;
    lock.unlock();
    auto result = std::make_shared<const Result<runtime::CompiledKernel>>(compileOrFail(compiler, job.plan));
    lock.lock();
    finish(key, code, result);
  }
}

Result<runtime::CompiledKernel> CompileAhead::take(const std::string &key, const codegen::KernelPlan &plan) {
  want(key, plan);
  std::unique_lock lock(mutex);
  Job &job = jobs.at(key);
  putFirst(key);
  if (!finished.wait(lock, stopped, [&] { return job.result != nullptr; }))
    return Error{ErrorCode::Cancelled, "tuning was cancelled while kernel " + plan.name + " compiled"};
  Result<runtime::CompiledKernel> result = *job.result; // Others may have the same.
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
    return std::all_of(jobs.begin(), jobs.end(), [](const auto &job) { return job.second.result != nullptr; });
  };
  if (finished.wait_until(lock, stopped, deadline, haveEnded))
    return;
  std::erase_if(jobs, [](const auto &job) { return !job.second.hasBegun; });
  finished.wait(lock, stopped, haveEnded);
}

bool CompileAhead::isReady(const std::string &key) {
  std::scoped_lock lock(mutex);
  auto found = jobs.find(key);
  return found != jobs.end() && found->second.result != nullptr;
}

} // namespace kfuse::tuner
