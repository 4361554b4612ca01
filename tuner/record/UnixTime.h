// The clock that processes share through the store.
#pragma once

#include <chrono>

namespace kfuse::tuner {

/// Seconds since 1970.
inline double unixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

} // namespace kfuse::tuner
