#include "tuner/model/AllCores.h"

#include "tuner/record/Trace.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace kfuse::tuner {

void onAllCores(std::size_t count, const std::function<void(std::size_t)> &body) {
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++)
      body(i);
  };
  const std::size_t threads = std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), count);
  std::vector<std::future<void>> helpers;
  for (std::size_t i = 1; i < threads; ++i)
    helpers.push_back(std::async(std::launch::async, [&work, isTraced = isTracing()] {
      TracedThread traced(isTraced);
      work();
    }));
  work(); // Where it throws, the futures' destructors wait.
  for (std::future<void> &helper : helpers)
    helper.get();
}

} // namespace kfuse::tuner
