#include "tuner/DeviceLock.h"

#include "tuner/Key.h"
#include "tuner/StoreLease.h"
#include "tuner/Trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace kfuse::tuner {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds pause(2);
constexpr std::chrono::seconds patience(60);

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

/// Polls until it has the lock or until `deadline`; 0 or what went wrong. The lock belongs to the open file, so it goes
/// with it (fcntl(2), "Open file description locks"); unlike flock it may also be on one byte, and on a network
/// file system.
int acquire(int file, const std::string &device, DeviceLock::Use use, Clock::time_point deadline) {
  if (file < 0)
    return errno;
  struct flock range{};
  range.l_type = use == DeviceLock::Use::Alone ? F_WRLCK : F_RDLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byteOf(device);
  range.l_len = 1;
  while (fcntl(file, F_OFD_SETLK, &range) != 0) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR)
      return errno;
    if (Clock::now() > deadline)
      return ETIMEDOUT;
    std::this_thread::sleep_for(pause);
  }
  return 0;
}

} // namespace

DeviceLock::DeviceLock(const std::string &device, Use use, const fs::path &storeFolder,
                       const std::function<void(const std::string &)> &warn) {
  Span span("wait", "for device " + device);
  const Clock::time_point start = Clock::now();
  const std::array<fs::path, 2> folders{"/tmp", storeFolder};
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (folders[i].empty())
      continue;
    descriptors[i] = openLockFile(folders[i]);
    if (i > 0 && isSameFile(descriptors[i], descriptors[0])) // Whose lock would wait for our own.
      continue;
    const int failure = acquire(descriptors[i], device, use, start + patience);
    if (failure != 0 && warn)
      warn(fmt::format("the measuring lock of device {} in {} cannot be had ({}): timings may be disturbed by other "
                       "processes",
                       device, folders[i].string(), std::strerror(failure)));
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
