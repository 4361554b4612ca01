#include "runtime/worker/Channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

namespace kfuse::runtime::worker {
namespace {

constexpr std::chrono::milliseconds lookPause(50); ///< Between looks at the peer.
constexpr int mostLooks =
    40; ///< At one that stands still. Looks are counted, since who waits may have been stopped, too.

bool isSuspended(pid_t child) {
  siginfo_t state{};
  return waitid(P_PID, static_cast<id_t>(child), &state, WSTOPPED | WNOHANG | WNOWAIT) == 0 && state.si_pid == child;
}

bool mayTryAgain() { return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK; }

} // namespace

Channel::Channel(int socket) : socket(socket) {}
Channel::Channel(Channel &&other) noexcept
    : socket(std::exchange(other.socket, -1)), peer(std::exchange(other.peer, {})) {}
Channel &Channel::operator=(Channel &&other) noexcept {
  std::swap(socket, other.socket);
  std::swap(peer, other.peer);
  return *this;
}
Channel::~Channel() {
  if (socket >= 0)
    ::close(socket);
}

Channel::Outcome Channel::wait(short events, Deadline deadline) const {
  for (int suspended = 0;;) {
    long milliseconds = peer.process != 0 ? lookPause.count() : 1 << 30;
    if (deadline) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      if (left <= 0)
        return Outcome::TooLate;
      milliseconds = std::min<long>(left, milliseconds);
    }
    pollfd ready{socket, events, 0};
    if (int count = ::poll(&ready, 1, static_cast<int>(milliseconds)); count > 0)
      return Outcome::Done; // A hangup shows when reading or writing.
    else if (count < 0 && errno != EINTR)
      return Outcome::Closed;
    if (peer.stop.stop_requested())
      return Outcome::Cancelled;
    suspended = peer.process != 0 && isSuspended(peer.process) ? suspended + 1 : 0;
    if (suspended == mostLooks)
      return Outcome::Suspended;
  }
}

Channel::Outcome Channel::send(const Json &message, Deadline deadline) {
  std::vector<std::uint8_t> bytes(sizeof(std::uint64_t));
  Json::to_cbor(message, bytes);
  const std::uint64_t length = bytes.size() - sizeof length;
  std::memcpy(bytes.data(), &length, sizeof length);
  for (std::size_t sent = 0; sent < bytes.size();) {
    if (Outcome outcome = wait(POLLOUT, deadline); outcome != Outcome::Done)
      return outcome;
    ssize_t count = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && !mayTryAgain())
      return Outcome::Closed;
    sent += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return Outcome::Done;
}

Channel::Outcome Channel::receive(Json &message, Deadline deadline) {
  std::uint64_t length = 0;
  if (Outcome outcome = readAll(reinterpret_cast<std::uint8_t *>(&length), sizeof length, deadline);
      outcome != Outcome::Done)
    return outcome;
  if (length > longestMessage)
    return Outcome::Closed;
  std::vector<std::uint8_t> bytes(length);
  if (Outcome outcome = readAll(bytes.data(), bytes.size(), deadline); outcome != Outcome::Done)
    return outcome;
  try { // Even so, lengths that make no sense are thrown.
    message = Json::from_cbor(bytes, true, false);
  } catch (const Json::exception &) {
    return Outcome::Closed;
  }
  return message.is_discarded() ? Outcome::Closed : Outcome::Done;
}

Channel::Outcome Channel::readAll(std::uint8_t *bytes, std::size_t count, Deadline deadline) {
  for (std::size_t read = 0; read < count;) {
    if (Outcome outcome = wait(POLLIN, deadline); outcome != Outcome::Done)
      return outcome;
    ssize_t got = ::recv(socket, bytes + read, count - read, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && !mayTryAgain()))
      return Outcome::Closed;
    read += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return Outcome::Done;
}

void Channel::waitForHangup() const {
  pollfd hangup{socket, POLLRDHUP, 0};
  while (::poll(&hangup, 1, -1) < 0 && errno == EINTR)
    ;
}

} // namespace kfuse::runtime::worker
