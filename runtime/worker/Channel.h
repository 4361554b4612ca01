// Messages over a stream socket: JSON values as CBOR, each behind its length.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <sys/types.h>

namespace kfuse::runtime::worker {

using Json = nlohmann::json;

class Channel {
public:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::optional<Clock::time_point>; ///< Empty: for ever.
  enum class Outcome : std::uint8_t {
    Done,
    TooLate,
    Closed,
    Cancelled, ///< The peer's `stop` was requested.
    Suspended  ///< The peer was stopped by a signal, as by SIGSTOP, and left so for 2 s: it cannot answer.
  };
  /// A child process at the other side, which is looked at every 50 ms of a wait; 0: another one.
  struct Peer {
    pid_t process = 0;
    std::stop_token stop{};
  };
  /// Bytes. Images of kernels are a few megabytes; a program holds its constants, too.
  static constexpr std::uint64_t longestMessage = 1ULL << 30;

  Channel() = default;
  /// Takes over the socket.
  explicit Channel(int socket);
  void setPeer(Peer other) { peer = std::move(other); }
  Channel(Channel &&other) noexcept;
  Channel &operator=(Channel &&other) noexcept;
  ~Channel();

  Outcome send(const Json &message, Deadline deadline = {});
  /// What is no message counts as Closed: the other side is out of its mind.
  Outcome receive(Json &message, Deadline deadline = {});
  /// Returns when the other side has closed, and not before.
  void waitForHangup() const;
  int descriptor() const { return socket; }

private:
  Outcome wait(short events, Deadline deadline) const;
  Outcome readAll(std::uint8_t *bytes, std::size_t count, Deadline deadline);

  int socket = -1;
  Peer peer;
};

} // namespace kfuse::runtime::worker
