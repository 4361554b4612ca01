// A file that a command writes, and what it must not be written over.
#pragma once

#include "kfuse/error.h"

#include <filesystem>
#include <string>
#include <vector>

namespace kfuse::tools {

/// A file that the same command reads or writes; `what` is for people: "the store".
struct FileInUse {
  std::string what;
  std::filesystem::path path;
};

/// The store's file and those that SQLite keeps beside it.
std::vector<FileInUse> filesOfStore(const std::filesystem::path &store);

/// Tried before the work begins, for an hour later is late to say that a folder is missing; leaves nothing behind.
/// Usage for a file in use, or an SQLite database: another store, most likely. Io for what cannot be written.
Result<void> checkOutput(const std::string &what, const std::filesystem::path &path,
                         const std::vector<FileInUse> &inUse);

/// Replaces the file as a whole, or leaves it as it was: Io. A pipe or a device is written to.
Result<void> writeOutput(const std::string &what, const std::filesystem::path &path, const std::string &text);

} // namespace kfuse::tools
