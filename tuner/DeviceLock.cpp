#include "tuner/DeviceLock.h"

#include "tuner/Trace.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace kfuse::tuner {
namespace {

constexpr std::chrono::milliseconds pause(2);
constexpr std::chrono::seconds patience(60);

/// In /tmp whatever TMPDIR says, and open to all: users of one machine share its devices.
int openLockFile(const std::string &device) {
  const std::string path = "/tmp/kfuse-" + device + ".lock";
  // Without O_CREAT first: in a sticky folder that is refused for another user's file.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0 && errno == ENOENT) {
    file = open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file >= 0)
      fchmod(file, 0666); // Whatever the umask says.
  }
  return file;
}

} // namespace

DeviceLock::DeviceLock(const std::string &device, Use use, const std::function<void(const std::string &)> &warn)
    : descriptor(openLockFile(device)) {
  Span span("wait", "for device " + device);
  const int how = (use == Use::Alone ? LOCK_EX : LOCK_SH) | LOCK_NB;
  const auto start = std::chrono::steady_clock::now();
  int failure = descriptor < 0 ? errno : 0;
  while (failure == 0 && flock(descriptor, how) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      failure = errno;
    else if (std::chrono::steady_clock::now() - start > patience)
      failure = ETIMEDOUT;
    else
      std::this_thread::sleep_for(pause);
  }
  wait = std::chrono::steady_clock::now() - start;
  if (failure != 0 && warn)
    warn("the measuring lock of device " + device + " cannot be had (" + std::strerror(failure) +
         "): timings may be disturbed by other processes");
}

DeviceLock::~DeviceLock() {
  if (descriptor >= 0)
    close(descriptor);
}

} // namespace kfuse::tuner
