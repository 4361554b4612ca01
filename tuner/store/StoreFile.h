// The SQLite file under a store: opened as well as it can be, mended where it is damaged, never a crash.
#pragma once

#include "kfuse/error.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>

namespace kfuse::tuner {

/// Thread-safe. A file that cannot be written degrades to reading, one that cannot be read to memory; a damaged
/// one is moved aside and begun anew; one of an older schema is brought to this one. Each is said once through `warn`.
class StoreFile {
public:
  using Warn = std::function<void(const std::string &)>;
  static constexpr int usualPatienceMs = 10000; ///< How long another process's lock is waited for.

  /// Opens or creates. Io for a file that holds something else than a kfuse store or a newer kfuse's; such a file
  /// is left as it is. In the cache folder whatever cannot be read is taken for a damaged store.
  static Result<std::unique_ptr<StoreFile>> open(const std::filesystem::path &path, Warn warn);
  /// Opens what is there to look at it: creates nothing, nor SQLite's companion files unless a writer's log lies beside
  /// it, and moves nothing. Io when that cannot be.
  static Result<std::unique_ptr<StoreFile>> openToRead(const std::filesystem::path &path, Warn warn,
                                                       int patienceMs = usualPatienceMs);
  /// Stands for a file that is not there, which is problem().
  static std::unique_ptr<StoreFile> absent(const std::filesystem::path &path);

  /// Runs `work(SQLite::Database &)` as one transaction; false when it did not succeed.
  template <class Work> bool write(Work work) {
    std::scoped_lock lock(mutex);
    if (access != Access::ReadWrite && access != Access::Memory)
      return false;
    const bool done = attempt([&](SQLite::Database &db) {
      SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
      work(db);
      transaction.commit();
    });
    if (done)
      waitAgain();
    return done;
  }

  /// What `work(SQLite::Database &)` returns, or a default-made one when it cannot be read.
  template <class Work> auto read(Work work) -> decltype(work(std::declval<SQLite::Database &>())) {
    std::scoped_lock lock(mutex);
    decltype(work(*database)) found;
    return attempt([&](SQLite::Database &db) { found = work(db); }) ? std::move(found) : decltype(found){};
  }

  /// Gives the space of removed rows back to the disk.
  void compact();

  const std::filesystem::path &path() const { return file; }
  /// Whether what is written goes to the file.
  bool isOnDisk() const;
  /// What keeps results from being stored, if anything does.
  std::optional<Error> problem() const;
  /// Has a problem() where the file that was written to is no longer the one of its name.
  void confirmPlace();

private:
  enum class Access : std::uint8_t {
    ReadWrite,
    ReadOnly,
    Immutable, ///< Read as it lies there, without locks.
    Memory
  };
  /// Changes with everything that is written to a file.
  struct Version {
    ino_t inode = 0;
    off_t size = 0;
    std::int64_t modifiedNs = 0;
    friend bool operator==(const Version &, const Version &) = default;
  };

  StoreFile(std::filesystem::path path, Warn warn) : file(std::move(path)), warn(std::move(warn)) {}

  /// Opens the file as `how`. An SQLite::Exception says that this way is barred.
  Result<void> connect(Access how);
  Result<void> identify(Access how);
  void upgrade(Access how);
  Result<void> openAny();
  void openInMemory(const std::string &reason);
  Result<void> renew(const std::string &reason);
  void reopenAfter(const std::string &reason);

  void say(const std::string &message);
  void degrade(const std::string &message);
  void giveUp(const SQLite::Exception &error);
  void waitAgain();
  bool mayMend(const SQLite::Exception &error) const;
  Error foreign() const;
  Version version() const;
  bool isDisplaced() const;
  bool isOutdated() const;
  void readAnew();

  /// Runs `work`; once more where damage has renewed the file, or where it was written to while it was read without
  /// locks.
  template <class Work> bool attempt(Work work) {
    for (bool again : {false, true}) {
      try {
        work(*database);
        if (again || !isOutdated())
          return true;
        readAnew();
      } catch (const SQLite::Exception &error) {
        if (again || !mayMend(error)) {
          giveUp(error);
          return false;
        }
        reopenAfter(error.what());
      }
    }
    return false;
  }

  std::filesystem::path file;
  Warn warn;
  mutable std::recursive_mutex mutex;
  std::unique_ptr<SQLite::Database> database;
  Access access = Access::Memory;
  Version opened;
  std::set<std::string> said;
  std::optional<Error> firstProblem;
  bool waits = true; ///< False after a wait that was in vain; patienceMs says how long one is.
  int patienceMs = usualPatienceMs;
};

} // namespace kfuse::tuner
