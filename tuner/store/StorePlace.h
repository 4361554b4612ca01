// Where the store's file is, and what its folder needs.
#pragma once

#include "kfuse/error.h"

#include <filesystem>

namespace kfuse::tuner {

/// kfuse/store.db in $XDG_CACHE_HOME, else in ~/.cache. What lies there is nobody else's.
std::filesystem::path cacheStorePath();
/// $KFUSE_STORE, else cacheStorePath().
std::filesystem::path defaultStorePath();

std::filesystem::path folderOf(const std::filesystem::path &path);

/// Makes the folder and those above it that are missing, whatever the umask open to nobody else's writing: a store in
/// one that others may write is not trusted. What cannot be made shows when a file in it is opened.
void makeFolders(const std::filesystem::path &folder);

/// Whether the file is on one of the file systems that lack the shared memory which SQLite's WAL needs.
bool isNetworkFileSystem(const std::filesystem::path &file);

/// Renames to NAME.corrupt-N with the least free N; SQLite's companion files go along, for whoever wants to
/// rescue it. The new name, or Io.
Result<std::filesystem::path> moveAside(const std::filesystem::path &path);

/// Holds processes apart while one creates, opens or moves aside the file. A lock on the folder leaves no
/// lock file behind. Where the file system has no locks, or a stopped process keeps one for 10 s, opening goes
/// on without.
class FolderLock {
public:
  explicit FolderLock(const std::filesystem::path &folder);
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

private:
  int descriptor;
};

} // namespace kfuse::tuner
