// Keeps the processes of a host from disturbing each other's timings on one device.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace kfuse::tuner {

/// Held while it lives; the kernel drops it when its process dies. It waits for its turn, but for not more than a
/// minute: a process that was stopped must not hold up all others, and nobody measures that long at a stretch.
class DeviceLock {
public:
  enum class Use : std::uint8_t {
    Alone, ///< To measure.
    Shared ///< To do what would disturb a measurement.
  };

  /// `device` is Device::id(). `warn` (which may be null) hears of a lock that cannot be had.
  DeviceLock(const std::string &device, Use use, const std::function<void(const std::string &)> &warn);
  DeviceLock(DeviceLock &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)), wait(other.wait) {}
  DeviceLock &operator=(DeviceLock &&) = delete;
  ~DeviceLock();

  /// What it cost.
  std::chrono::steady_clock::duration waited() const { return wait; }

private:
  int descriptor;
  std::chrono::steady_clock::duration wait{};
};

} // namespace kfuse::tuner
