#include "tools/kfuse/console/Interruption.h"

#include "kfuse/error.h"
#include "tools/kfuse/console/Terminal.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace kfuse::tools {
namespace {

constexpr std::array requests{SIGINT, SIGTERM, SIGHUP};
constexpr timespec grace{.tv_sec = 0, .tv_nsec = 800'000'000};
constexpr int cancelled = static_cast<int>(ErrorCode::Cancelled);

bool isIgnored(int signal) {
  struct sigaction action{};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// A thread that waits for signals, which all threads begun since leave to it.
class SignalWatch {
public:
  SignalWatch() : wake(SIGRTMIN) {
    sigemptyset(&watched);
    sigaddset(&watched, wake);
    for (int signal :
         requests) // Scripts start what runs in the background with SIGINT ignored: it counts all the same.
      if (signal != SIGHUP || !isIgnored(signal))
        sigaddset(&watched, signal);
    pthread_sigmask(SIG_BLOCK, &watched, &before);
    watcher = std::thread([this] { watch(); });
  }
  ~SignalWatch() {
    pthread_kill(watcher.native_handle(), wake);
    watcher.join();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  SignalWatch(const SignalWatch &) = delete;
  SignalWatch &operator=(const SignalWatch &) = delete;

  std::stop_token token() const { return stop.get_token(); }
  bool hasStopped() const { return stop.stop_requested(); }

private:
  void watch() {
    int signal = 0;
    if (sigwait(&watched, &signal) != 0 || signal == wake)
      return;
    clearProgress();
    fmt::print(stderr, "kfuse: ended by SIG{}; what was tuned by then is kept\n", sigabbrev_np(signal));
    stop.request_stop();
    if (sigtimedwait(&watched, nullptr, &grace) != wake)
      _exit(cancelled);
  }

  const int wake; ///< Sent by nobody else.
  sigset_t watched{}, before{};
  std::stop_source stop;
  std::thread watcher;
};

} // namespace

int interruptible(const std::function<int(const std::stop_token &)> &command) {
  SignalWatch signals;
  const int status = command(signals.token());
  return signals.hasStopped() ? cancelled : status;
}

} // namespace kfuse::tools
