// Where kfuse calls its user's functions: their exceptions are caught here, in code that the user compiles. Through
// kfuse's own code, which may have another C++ runtime inside, none may pass.
#pragma once

#include "kfuse/error.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <string>

namespace kfuse::detail {

/// Calls functions, on any thread, until one throws: what it threw is kept, and none is called after it.
class CallbackGuard {
public:
  /// Whether `call` was called and returned. `name` is for the error.
  template <class Call> bool operator()([[maybe_unused]] const char *name, const Call &call) {
    if (hasThrown)
      return false;
#ifdef __cpp_exceptions
    try {
      call();
    } catch (const std::exception &thrown) {
      keep(name, thrown.what());
    } catch (...) {
      keep(name, "what is no std::exception");
    }
#else
    call();
#endif
    return !hasThrown;
  }

  /// `result`, or Cancelled with what the first exception says.
  template <class T> Result<T> orError(Result<T> result) {
    std::scoped_lock lock(mutex);
    return hasThrown ? Result<T>(first) : std::move(result);
  }

private:
  void keep(const char *name, const char *what) {
    std::scoped_lock lock(mutex);
    if (!hasThrown)
      first = {ErrorCode::Cancelled, std::string("the callback '") + name + "' threw: " + what};
    hasThrown = true;
  }

  std::atomic<bool> hasThrown = false;
  std::mutex mutex; ///< Guards `first`.
  Error first;
};

} // namespace kfuse::detail
