// A long call of the library on a thread of its own, while the calling thread answers Ctrl-C and delivers what the call
// tells: Python's functions are only ever called on the thread that called kfuse, with the GIL.
#pragma once

#include "Errors.h"

#include "kfuse/tuning.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace kfuse::python {

/// kfuse::Progress, with a name that outlives the call.
struct HeldProgress {
  std::string kernel;
  Progress numbers;
};

/// What the working thread tells; every function may be called on any thread.
class Inbox {
public:
  void put(const Progress &at);
  void log(std::string_view line);
  void end();

  struct Letters {
    std::optional<HeldProgress> progress; ///< The newest.
    std::vector<std::string> lines;
    bool isLast = false;
  };
  /// Waits for a tenth of a second at most, without the GIL, and takes what there is.
  Letters wait();

private:
  std::mutex mutex;
  std::condition_variable ended;
  Letters letters;
};

/// Gives letters to Python: progress to a callable or None, lines to the logger "kfuse". False once the callable
/// answered False.
bool deliver(const Inbox::Letters &letters, const nb::object &progress);

/// Long calls under way. Once the interpreter ends none may wait for the GIL any more: endAll() stops them and waits.
class CallsUnderWay {
public:
  static CallsUnderWay &all();
  void endAll();

  /// Counts a call, and stops it with the others.
  class Call {
  public:
    explicit Call(std::jthread &worker)
        : stopping(all().ending.get_token(), std::function<void()>([&worker] { worker.request_stop(); })) {
      ++all().count;
    }
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    ~Call() { --all().count; }

  private:
    std::stop_callback<std::function<void()>> stopping;
  };

private:
  std::stop_source ending;
  std::atomic<int> count = 0;
};

/// Calls `work(stop token, inbox)` on a thread, and returns what it returned. A signal's exception, and one of the
/// callback's, stops the work, is waited for and thrown.
template <class Work> auto runInterruptibly(const nb::object &progress, const Work &work) {
  Inbox inbox;
  std::optional<decltype(work(std::stop_token(), inbox))> result;
  std::optional<nb::python_error> interrupted;
  {
    std::jthread worker([&](const std::stop_token &stop) {
      result.emplace(work(stop, inbox));
      inbox.end();
    });
    const CallsUnderWay::Call call(worker);
    for (bool isDone = false; !isDone;) {
      const Inbox::Letters letters = inbox.wait();
      isDone = letters.isLast;
      if (interrupted)
        continue;
      try {
        if (PyErr_CheckSignals() != 0)
          throw nb::python_error();
        if (!deliver(letters, progress))
          worker.request_stop();
      } catch (nb::python_error &thrown) {
        interrupted.emplace(std::move(thrown));
        worker.request_stop();
      }
    }
  }
  if (interrupted)
    throw nb::python_error(std::move(*interrupted));
  return std::move(*result);
}

} // namespace kfuse::python
