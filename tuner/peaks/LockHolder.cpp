#include "tuner/peaks/LockHolder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace kfuse::tuner {
namespace {

/// The number that all of the text is.
std::optional<long> numberOf(const std::string &text) {
  long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Whether a line of /proc/PID/fdinfo/N tells of a lock on this byte: "lock: 1: OFDLCK ADVISORY WRITE -1 08:01:42 7 7"
/// (proc_pid_fdinfo(5)); the last byte may be EOF.
bool tellsOfLock(const std::string &line, off_t byte) {
  std::istringstream words(line);
  std::string tag, number, kind, advisory, access, owner, file, first, last;
  if (!(words >> tag >> number >> kind >> advisory >> access >> owner >> file >> first >> last) || tag != "lock:")
    return false;
  const std::optional<long> from = numberOf(first);
  return from && *from <= byte && (last == "EOF" || numberOf(last).value_or(-1) >= byte);
}

bool holds(const fs::path &process, const struct stat &file, off_t byte) {
  std::error_code failed; // Another user's, or gone meanwhile.
  for (fs::directory_iterator open(process / "fd", failed), end; !failed && open != end; open.increment(failed)) {
    struct stat facts{};
    if (stat(open->path().c_str(), &facts) != 0 || facts.st_dev != file.st_dev || facts.st_ino != file.st_ino)
      continue;
    std::ifstream info(process / "fdinfo" / open->path().filename());
    for (std::string line; std::getline(info, line);)
      if (tellsOfLock(line, byte))
        return true;
  }
  return false;
}

/// The lock of an open file has no process of its own: whoever has that file open holds it.
std::optional<long> processWithLock(int file, off_t byte) {
  struct stat facts{};
  std::error_code failed;
  if (fstat(file, &facts) != 0)
    return std::nullopt;
  for (fs::directory_iterator process("/proc", failed), end; !failed && process != end; process.increment(failed))
    if (const std::optional<long> id = numberOf(process->path().filename());
        id && *id != getpid() && holds(process->path(), facts, byte))
      return id;
  return std::nullopt;
}

} // namespace

std::string holderOf(int file, struct flock range) {
  const off_t byte = range.l_start;
  std::optional<long> id;
  if (fcntl(file, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK && range.l_pid > 0)
    id = range.l_pid;
  if (!id)
    id = processWithLock(file, byte);
  if (!id)
    return "another process";
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", *id)), name);
  std::ranges::replace_if(name, [](unsigned char c) { return std::isprint(c) == 0; }, '?');
  return name == "kfuse" ? fmt::format("kfuse's process {}", *id) : fmt::format("another process, {} ({})", *id, name);
}

} // namespace kfuse::tuner
