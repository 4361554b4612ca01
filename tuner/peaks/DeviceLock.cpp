#include "tuner/peaks/DeviceLock.h"

#include "tuner/peaks/LockHolder.h"
#include "tuner/record/BootId.h"
#include "tuner/record/Key.h"
#include "tuner/record/Trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace kfuse::tuner {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds pause(2);
constexpr std::chrono::seconds
    silence(1); ///< A wait is not told of before: processes that take turns mostly wait for less.

/// In /tmp whatever TMPDIR says, and open to all: users of one machine share its devices. -1 with errno.
int openLockFile(const fs::path &folder) {
  const fs::path path = folder / "kfuse-devices.lock";
  constexpr int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  // Without O_CREAT first: in a sticky folder that is refused for another user's file.
  int file = open(path.c_str(), flags);
  if (file < 0 && errno == ENOENT) {
    file = open(path.c_str(), flags | O_CREAT | O_EXCL, 0666);
    if (file >= 0)
      fchmod(file, 0666); // Whatever the umask says.
    else if (errno == EEXIST)
      file = open(path.c_str(), flags);
  }
  // Anybody may have put a pipe there.
  struct stat found{};
  if (file >= 0 && (fstat(file, &found) != 0 || !S_ISREG(found.st_mode))) {
    close(file);
    errno = ENOTSUP;
    return -1;
  }
  return file;
}

/// The store may lie in /tmp itself, or behind another name of it.
bool isSameFile(int a, int b) {
  struct stat one{}, other{};
  return a >= 0 && b >= 0 && fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

/// The byte of a lock file that stands for this machine's device.
off_t byteOf(const std::string &device) {
  std::string digits = stableHash({bootId(), device});
  std::erase(digits, '-');
  return std::stoll(digits.substr(0, 15), nullptr, 16); // 60 bits.
}

struct flock rangeOf(const std::string &device, DeviceLock::Use use) {
  struct flock range{};
  range.l_type = use == DeviceLock::Use::Alone ? F_WRLCK : F_RDLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byteOf(device);
  range.l_len = 1;
  return range;
}

std::string inSeconds(Clock::duration time) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(time).count());
}

/// One of the lock files.
struct LockFile {
  int descriptor;
  fs::path folder;
  std::string name; ///< For people.
  struct flock range;
  LockPatience &patience;

  bool acquire(Clock::time_point start);
  void lack(const std::string &why) const;
};

/// Polls until it has the lock, or until patience ends; whether it has it. The lock belongs to the open file, so it
/// goes with it (fcntl(2), "Open file description locks"); unlike flock it may also be on one byte, and on a network
/// file system.
bool LockFile::acquire(Clock::time_point start) {
  const Clock::duration allowed = patience.allowed(folder);
  bool hasSpoken = false;
  while (fcntl(descriptor, F_OFD_SETLK, &range) != 0) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
      lack(std::strerror(errno));
      return false;
    }
    const Clock::duration waited = Clock::now() - start;
    if (patience.isStopped() || allowed == Clock::duration::zero())
      return false;
    if (waited > allowed) {
      patience.wasInVain(folder);
      lack(fmt::format("{} keeps it, {} were waited", holderOf(descriptor, range), inSeconds(allowed)));
      return false;
    }
    if (!hasSpoken && waited > silence) {
      hasSpoken = true;
      patience.say("wait for " + name, fmt::format("waiting up to {} for {}, which {} holds", inSeconds(allowed), name,
                                                   holderOf(descriptor, range)));
    }
    std::this_thread::sleep_for(pause);
  }
  patience.wasHad(folder);
  return true;
}

void LockFile::lack(const std::string &why) const {
  patience.say(name, fmt::format("{} cannot be had ({}): timings may be disturbed by other processes", name, why));
}

} // namespace

void LockPatience::limit(double secondsOfTuning) {
  const std::chrono::duration<double> longest = longestStretch;
  std::scoped_lock lock(mutex);
  most = longestStretch;
  if (secondsOfTuning > 0)
    most = std::chrono::duration_cast<Clock::duration>(
        std::min(longest, std::chrono::duration<double>(secondsOfTuning / 2)));
}

LockPatience::Clock::duration LockPatience::allowed(const fs::path &path) const {
  std::scoped_lock lock(mutex);
  return inVain.contains(path) ? Clock::duration::zero() : most;
}

void LockPatience::wasHad(const fs::path &path) {
  std::scoped_lock lock(mutex);
  inVain.erase(path);
}

void LockPatience::wasInVain(const fs::path &path) {
  std::scoped_lock lock(mutex);
  inVain.insert(path);
}

void LockPatience::say(const std::string &about, const std::string &line) {
  std::scoped_lock lock(mutex);
  if (said.insert(about).second && warn)
    warn(line);
}

DeviceLock::DeviceLock(const std::string &device, Use use, const fs::path &storeFolder, LockPatience &patience) {
  Span span("wait", "for device " + device);
  const Clock::time_point start = Clock::now();
  const std::array<fs::path, 2> folders{"/tmp", storeFolder};
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (folders[i].empty())
      continue;
    descriptors[i] = openLockFile(folders[i]);
    const int failure = errno;
    LockFile lock{descriptors[i], folders[i],
                  fmt::format("the measuring lock of device {} in {}", device, folders[i].string()),
                  rangeOf(device, use), patience};
    if (descriptors[i] < 0)
      lock.lack(std::strerror(failure));
    else if (i == 0 || !isSameFile(descriptors[i], descriptors[0])) // In the same file a second lock would deadlock.
      lock.acquire(start);
  }
  wait = Clock::now() - start;
}

DeviceLock::DeviceLock(DeviceLock &&other) noexcept : descriptors(other.descriptors), wait(other.wait) {
  other.descriptors.fill(-1);
}

DeviceLock::~DeviceLock() {
  for (int descriptor : descriptors)
    if (descriptor >= 0)
      close(descriptor);
}

} // namespace kfuse::tuner
