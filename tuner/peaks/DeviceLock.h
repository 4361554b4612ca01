// Keeps the processes of a host from disturbing each other's timings on one device.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>

namespace kfuse::tuner {

/// How long one tuning waits for devices, and what was said of it. A lock that was waited for in vain is waited for no
/// more, until it is free again: somebody who keeps it costs the time once. Thread-safe.
class LockPatience {
public:
  using Clock = std::chrono::steady_clock;
  using Warn = std::function<void(const std::string &)>;

  /// `warn` (which may be null) hears each line once. Waiting ends when `stop` asks for it.
  explicit LockPatience(Warn warn = {}, std::stop_token stop = {}) : warn(std::move(warn)), stop(std::move(stop)) {}

  /// Half of the seconds that a tuning has, which is 0 where it has no limit; and never longer than anybody measures at
  /// a stretch: the whole search of one kernel, 20 s.
  void limit(double secondsOfTuning);

  /// Takes the lock file `path`.
  Clock::duration allowed(const std::filesystem::path &path) const;
  void wasHad(const std::filesystem::path &path);
  void wasInVain(const std::filesystem::path &path);
  void say(const std::string &about, const std::string &line);
  bool isStopped() const { return stop.stop_requested(); }

private:
  static constexpr std::chrono::seconds longestStretch{20};
  const Warn warn;
  const std::stop_token stop;
  mutable std::mutex mutex;
  Clock::duration most = longestStretch;
  std::set<std::filesystem::path> inVain;
  std::set<std::string> said; ///< The subjects that had their line.
};

/// Held while it lives; the kernel drops it when its process dies. It waits for its turn, but only as long as
/// `patience` allows: a process that was stopped, or one that keeps it on purpose, must not hold up all others. A line
/// tells of a wait of more than a second, and for whom it is.
///
/// There are two locks, taken in this order: one in /tmp, which all users of the host share, whatever their stores; and
/// one beside the store, which containers share that have a /tmp of their own (where the store lies in /tmp itself, the
/// first is both). Each is a byte of a file (kfuse-devices.lock) that stands for this device of this machine: hosts
/// that share the folder do not wait for each other.
///
/// A place that all users can lock is one that any of them can keep locked: in a folder of the user's own
/// (XDG_RUNTIME_DIR) the lock would keep nobody else's processes apart. So what a lock may cost is bounded instead.
/// Nothing is ever written to the file, and neither a link nor anything but a plain file is opened: who makes it first
/// gains nothing but that nobody waits.
class DeviceLock {
public:
  enum class Use : std::uint8_t {
    Alone, ///< To measure.
    Shared ///< To do what would disturb a measurement.
  };

  /// `device` is Device::id(), `storeFolder` Store::sharedFolder(). What cannot be had is said through `patience`, and
  /// done without.
  DeviceLock(const std::string &device, Use use, const std::filesystem::path &storeFolder, LockPatience &patience);
  DeviceLock(DeviceLock &&other) noexcept;
  DeviceLock &operator=(DeviceLock &&) = delete;
  ~DeviceLock();

  /// How long it was waited for.
  std::chrono::steady_clock::duration waited() const { return wait; }

private:
  std::array<int, 2> descriptors{-1, -1};
  std::chrono::steady_clock::duration wait{};
};

} // namespace kfuse::tuner
