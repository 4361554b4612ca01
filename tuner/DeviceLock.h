// Keeps the processes of a host from disturbing each other's timings on one device.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace kfuse::tuner {

/// Held while it lives; the kernel drops it when its process dies. It waits for its turn, but for not more than a
/// minute: a process that was stopped must not hold up all others, and nobody measures that long at a stretch.
///
/// There are two locks, taken in this order: one in /tmp, which all users of the host share, whatever their stores; and
/// one beside the store, which containers share that have a /tmp of their own (where the store lies in /tmp itself, the
/// first is both). Each is a byte of a file (kfuse-devices.lock) that stands for this device of this machine: hosts
/// that share the folder do not wait for each other.
class DeviceLock {
public:
  enum class Use : std::uint8_t {
    Alone, ///< To measure.
    Shared ///< To do what would disturb a measurement.
  };

  /// `device` is Device::id(), `storeFolder` Store::sharedFolder(). `warn` (which may be null) hears of a lock that
  /// cannot be had.
  DeviceLock(const std::string &device, Use use, const std::filesystem::path &storeFolder,
             const std::function<void(const std::string &)> &warn);
  DeviceLock(DeviceLock &&other) noexcept;
  DeviceLock &operator=(DeviceLock &&) = delete;
  ~DeviceLock();

  /// What it cost.
  std::chrono::steady_clock::duration waited() const { return wait; }

private:
  std::array<int, 2> descriptors{-1, -1};
  std::chrono::steady_clock::duration wait{};
};

} // namespace kfuse::tuner
