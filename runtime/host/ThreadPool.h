// The threads that share a kernel's items.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace kfuse::runtime {

/// A fixed number of threads, the calling one among them. Thread-safe: callers share the workers.
class ThreadPool {
public:
  using Body = std::function<void(std::int64_t begin, std::int64_t end)>;

  explicit ThreadPool(int threads);
  ~ThreadPool();

  /// Runs `body` over [0, items), at least `grain` at a time, on whichever thread is free; back when all is done.
  void run(std::int64_t items, std::int64_t grain, const Body &body);

private:
  struct Workers;
  std::unique_ptr<Workers> workers; ///< Null for one thread.
  int threads;
};

} // namespace kfuse::runtime
