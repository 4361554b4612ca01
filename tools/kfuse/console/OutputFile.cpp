#include "tools/kfuse/console/OutputFile.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <unistd.h>

namespace fs = std::filesystem;

namespace kfuse::tools {
namespace {

Error cannotWrite(const std::string &what, const fs::path &path) {
  return {ErrorCode::Io, fmt::format("the {} {} cannot be written: {}", what, path.string(), std::strerror(errno))};
}

/// With its folders' links followed, whether it is there or not; "" where that cannot be.
fs::path resolved(const fs::path &path) {
  std::error_code failed;
  fs::path found = fs::weakly_canonical(fs::absolute(path, failed), failed);
  return failed ? fs::path() : found;
}

bool isSameFile(const fs::path &a, const fs::path &b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored) || (!resolved(a).empty() && resolved(a) == resolved(b));
}

/// https://www.sqlite.org/fileformat.html#magic_header_string
bool isDatabase(const fs::path &path) {
  constexpr std::string_view mark("SQLite format 3\0", 16);
  std::array<char, mark.size()> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == mark;
}

/// Whether a file is there, or can be; no device, pipe or folder.
bool isForFile(const fs::path &path) {
  std::error_code ignored;
  return !fs::exists(path, ignored) || fs::is_regular_file(path, ignored);
}

bool write(const fs::path &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  return static_cast<bool>((file << text).flush());
}

} // namespace

std::vector<FileInUse> filesOfStore(const fs::path &store) {
  std::vector<FileInUse> files;
  for (const char *ending : {"", "-wal", "-shm", "-journal"})
    files.push_back({"the store", store.string() + ending});
  return files;
}

Result<void> checkOutput(const std::string &what, const fs::path &path, const std::vector<FileInUse> &inUse) {
  if (isForFile(path)) {
    for (const FileInUse &file : inUse)
      if (isSameFile(path, file.path))
        return Error{ErrorCode::Usage, fmt::format("the {} {} would be written over {}: name another file", what,
                                                   path.string(), file.what)};
    if (isDatabase(path))
      return Error{ErrorCode::Usage, fmt::format("the {} {} would be written over an SQLite database, which may be a "
                                                 "store: name another file, or remove this one",
                                                 what, path.string())};
  }
  std::error_code ignored;
  const bool isNew = fs::symlink_status(path, ignored).type() == fs::file_type::not_found;
  if (!std::ofstream(path, std::ios::app))
    return cannotWrite(what, path);
  if (isNew)
    fs::remove(path, ignored);
  return {};
}

Result<void> writeOutput(const std::string &what, const fs::path &path, const std::string &text) {
  const fs::path place = resolved(path); // A link stays one.
  fs::path draft = place;
  draft += fmt::format(".part-{}", getpid());
  if (!isForFile(path) || place.empty() || !std::ofstream(draft)) // A file may be writable where its folder is not.
    return write(path, text) ? Result<void>() : cannotWrite(what, path);
  std::error_code failed;
  if (!write(draft, text)) {
    Error error = cannotWrite(what, path);
    fs::remove(draft, failed);
    return error;
  }
  if (fs::exists(place, failed))
    fs::permissions(draft, fs::status(place, failed).permissions(), failed);
  fs::rename(draft, place, failed);
  if (failed) {
    errno = failed.value();
    return cannotWrite(what, path);
  }
  return {};
}

} // namespace kfuse::tools
