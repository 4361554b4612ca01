#include "ir/reference/Parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace kfuse::reference {

void parallelFor(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)> &body) {
  if (count <= 0)
    return;
  std::int64_t pieces = (count + grain - 1) / grain;
  std::atomic<std::int64_t> next{0};
  auto work = [&] {
    for (std::int64_t piece = next++; piece < pieces; piece = next++)
      body(piece * grain, std::min(count, (piece + 1) * grain));
  };
  std::int64_t helpers = std::min<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()), pieces) - 1;
  std::vector<std::jthread> threads;
  threads.reserve(helpers);
  for (std::int64_t i = 0; i < helpers; ++i)
    threads.emplace_back(work);
  work();
}

} // namespace kfuse::reference
