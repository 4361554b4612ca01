#include "runtime/host/ThreadPool.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace kfuse::runtime {
namespace {

/// How long a worker looks for work before it sleeps: longer than the gap between two kernels of a
/// model, and than it takes to wake up on a virtual machine.
constexpr std::chrono::microseconds patience{50};

/// A thread takes at most this many pieces of a run when they are of one length: few enough that starting
/// one (streams that the processor has to find again, stores to wait for) does not show, and many
/// enough that threads end together.
constexpr std::int64_t piecesPerThread = 32;

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

std::vector<int> processorsOfThisProcess() {
  std::vector<int> processors;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &allowed))
        processors.push_back(i);
  return processors;
}

/// Gives each worker a processor of its own when there are as many as threads. Left to itself, Linux
/// was seen to keep a worker behind its caller on one processor for seconds while another had time.
class Seats {
public:
  void assign(std::vector<std::thread> &workers) {
    std::vector<int> processors = processorsOfThisProcess();
    if (processors.size() != workers.size() + 1)
      return;
    spare = processors.back();
    for (std::size_t i = 0; i < workers.size(); ++i) {
      seats.push_back({workers[i].native_handle(), processors[i]});
      bind(seats.back());
    }
  }

  /// A worker that sits where the caller runs takes the spare processor.
  void makeRoomForCaller() {
    int caller = sched_getcpu();
    if (seats.empty() || caller == spare.load(std::memory_order_relaxed))
      return;
    std::lock_guard lock(mutex);
    for (Seat &seat : seats)
      if (seat.processor == caller) {
        seat.processor = spare.exchange(caller, std::memory_order_relaxed);
        bind(seat);
        return;
      }
  }

private:
  struct Seat {
    pthread_t worker;
    int processor;
  };

  static void bind(const Seat &seat) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(seat.processor, &set);
    pthread_setaffinity_np(seat.worker, sizeof set, &set); // A hint: without it work is only slower.
  }

  std::mutex mutex;
  std::vector<Seat> seats;
  std::atomic<int> spare{-1}; ///< The processor without a worker.
};

} // namespace

struct ThreadPool::Workers {
  explicit Workers(int count) {
    try {
      for (int i = 0; i < count; ++i)
        threads.emplace_back([this] { work(); });
    } catch (const std::system_error &) {
      // The system gives no more: those that there are do the work, or the caller alone.
    }
    seats.assign(threads);
  }
  ~Workers() {
    queue.stop();
    for (std::thread &thread : threads)
      thread.join();
  }

  void work() {
    using Clock = std::chrono::steady_clock;
    for (Clock::time_point idleSince = Clock::now(); !queue.stopped();) {
      bool isWorthwhile = Clock::now() - idleSince < patience;
      if ((isWorthwhile ? queue.poll_one() : queue.run_one()) > 0)
        idleSince = Clock::now();
    }
  }

  boost::asio::io_context queue;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{queue.get_executor()};
  std::vector<std::thread> threads;
  Seats seats;
};

ThreadPool::ThreadPool(int threads) : threads(threads) {
  if (threads > 1)
    workers = std::make_unique<Workers>(threads - 1);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::run(std::int64_t items, std::int64_t grain, const Body &body) {
  grain = std::max(grain, items / (threads * piecesPerThread));
  std::int64_t pieces = (items + grain - 1) / grain;
  if (!workers || pieces <= 1)
    return items > 0 ? body(0, items) : void();
  workers->seats.makeRoomForCaller();
  auto shared = std::make_shared<SharedItems>(items, grain, body);
  for (std::int64_t i = 1; i < std::min<std::int64_t>(threads, pieces); ++i)
    boost::asio::post(workers->queue, [shared] { shared->help(); });
  shared->help();
  shared->wait();
}

} // namespace kfuse::runtime
