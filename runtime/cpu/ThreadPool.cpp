#include "runtime/cpu/ThreadPool.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <algorithm>
#include <atomic>

namespace kfuse::runtime::cpu {
namespace {

/// One run's items. A worker that comes when all are taken finds nothing to do and touches no body,
/// so that the caller waits for items, never for workers to wake up.
class SharedItems {
public:
  SharedItems(std::int64_t items, std::int64_t grain, const ThreadPool::Body &body)
      : items(items), grain(grain), body(body) {}

  void help() {
    for (std::int64_t begin = next.fetch_add(grain); begin < items; begin = next.fetch_add(grain)) {
      std::int64_t end = std::min(begin + grain, items);
      body(begin, end);
      if (done.fetch_add(end - begin) + end - begin == items)
        done.notify_all();
    }
  }

  void wait() {
    for (std::int64_t seen = done.load(); seen < items; seen = done.load())
      done.wait(seen);
  }

private:
  const std::int64_t items, grain;
  const ThreadPool::Body &body;
  std::atomic<std::int64_t> next{0}, done{0};
};

} // namespace

struct ThreadPool::Workers {
  explicit Workers(int threads) : pool(static_cast<std::size_t>(threads)) {}
  boost::asio::thread_pool pool;
};

ThreadPool::ThreadPool(int threads) : threads(threads) {
  if (threads > 1)
    workers = std::make_unique<Workers>(threads - 1);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::run(std::int64_t items, std::int64_t grain, const Body &body) {
  std::int64_t pieces = (items + grain - 1) / grain;
  if (!workers || pieces <= 1)
    return items > 0 ? body(0, items) : void();
  auto shared = std::make_shared<SharedItems>(items, grain, body);
  for (std::int64_t i = 1; i < std::min<std::int64_t>(threads, pieces); ++i)
    boost::asio::post(workers->pool, [shared] { shared->help(); });
  shared->help();
  shared->wait();
}

} // namespace kfuse::runtime::cpu
