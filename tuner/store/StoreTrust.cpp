#include "tuner/store/StoreTrust.h"

#include "tuner/store/StorePlace.h"

#include <fmt/format.h>

#include <array>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace kfuse::tuner {
namespace {

using Reason = std::optional<std::string>;

constexpr std::array companions{"-wal", "-shm", "-journal"};

bool isForeign(const struct stat &facts) { return facts.st_uid != geteuid() && facts.st_uid != 0; }

/// Others may put something into a folder with the sticky bit, but replace only what is theirs.
bool isOpenToOthers(const struct stat &facts) {
  const bool isSticky = S_ISDIR(facts.st_mode) && (facts.st_mode & S_ISVTX) != 0;
  return !isSticky && (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/// Why somebody else may write what has this name; nothing where there is nothing.
Reason whyShared(const fs::path &path) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0)
    return std::nullopt;
  if (isForeign(facts))
    return fmt::format("{} belongs to user {}: make it your own", path.string(), facts.st_uid);
  if (isOpenToOthers(facts))
    return fmt::format("others may write {0} (mode {1:04o}): chmod go-w {0}", path.string(), facts.st_mode & 07777);
  return std::nullopt;
}

/// Nobody but the user and root gets to what is below.
bool isClosed(const fs::path &folder) {
  struct stat facts{};
  return stat(folder.c_str(), &facts) == 0 && !isForeign(facts) && (facts.st_mode & (S_IXGRP | S_IXOTH)) == 0;
}

/// Why somebody else may put another folder in the place of this one.
Reason whyReplaceable(fs::path folder) {
  Reason why;
  while (folder.has_relative_path()) {
    folder = folder.parent_path();
    if (isClosed(folder))
      return std::nullopt;
    if (!why)
      why = whyShared(folder);
  }
  return why;
}

Reason whyOthersMayWrite(const fs::path &file) {
  Reason why = whyShared(file);
  for (const char *ending : companions)
    if (!why)
      why = whyShared(file.string() + ending);
  if (!why)
    why = whyShared(file.parent_path());
  return why ? why : whyReplaceable(file.parent_path());
}

} // namespace

Reason whyNotTrusted(const fs::path &store) {
  std::error_code ignored;
  const fs::path named = fs::absolute(store, ignored).lexically_normal();
  const fs::path real = fs::weakly_canonical(named, ignored); // The place of a link counts, too.
  Reason why = whyOthersMayWrite(named);
  return why || real.empty() || real == named ? why : whyOthersMayWrite(real);
}

Reason plantedCompanion(const fs::path &store) {
  std::error_code ignored;
  const fs::path real = fs::canonical(store, ignored);
  if (real.empty() || whyShared(real))
    return std::nullopt;
  for (const char *ending : companions) {
    const std::string companion = real.string() + ending;
    struct stat facts{};
    if (lstat(companion.c_str(), &facts) == 0 && isForeign(facts))
      return fmt::format("{} belongs to user {} and the store does not: remove it, or name another file", companion,
                         facts.st_uid);
  }
  return std::nullopt;
}

} // namespace kfuse::tuner
