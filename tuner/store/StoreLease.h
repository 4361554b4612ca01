// Who is tuning what: processes that share a store take each region once.
#pragma once

#include "tuner/store/StoreFile.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace kfuse::tuner {

/// The leases that one open store holds, kept alive by a heartbeat. A lease ends when it is released, when its
/// process is seen to be gone (same boot and process namespace), or when its heart has not beaten for a while.
/// Heartbeats are counted, and watched on the watcher's own clock: clocks of two machines are never compared.
class LeaseBook {
public:
  struct Pace {
    std::chrono::milliseconds beat{2000};
    std::chrono::milliseconds expiry{15000}; ///< A lease without a beat for so long is free.
  };

  /// `file` must outlive the book.
  explicit LeaseBook(StoreFile &file) : LeaseBook(file, Pace()) {}
  LeaseBook(StoreFile &file, Pace pace);
  ~LeaseBook();
  LeaseBook(const LeaseBook &) = delete;
  LeaseBook &operator=(const LeaseBook &) = delete;

  /// Takes the region unless another living owner has it. True, too, where the store cannot be written: work that
  /// cannot be shared is done.
  bool claim(const std::string &region);
  void release(const std::string &region);

private:
  /// What was last seen of a foreign lease, and since when.
  struct Sighting {
    std::string owner;
    std::int64_t beat = 0;
    std::chrono::steady_clock::time_point since;
  };

  bool isFree(SQLite::Database &db, const std::string &region);
  bool isDead(const std::string &region, const std::string &owner, std::int64_t beat);
  void keepBeating(const std::stop_token &stop);

  StoreFile &file;
  Pace pace;
  std::string self; ///< "BOOT/NAMESPACE/PID/START/NUMBER".
  std::mutex mutex;
  std::condition_variable_any changed;
  std::set<std::string> held;
  std::map<std::string, Sighting> sightings;
  std::jthread heart; ///< Begun with the first lease.
};

/// Leases in the file, but for those of processes that are seen to be gone: one that was ended where it was leaves its
/// rows, and they are nobody's.
int countLeases(SQLite::Database &db);

} // namespace kfuse::tuner
