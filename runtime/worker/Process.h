// The worker process as its parent sees it.
#pragma once

#include "kfuse/error.h"
#include "runtime/worker/Channel.h"
#include "runtime/worker/SharedMemory.h"

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace kfuse::runtime::worker {

// What a worker finds open: besides these only /dev/null, as standard input, output and error.
constexpr int socketDescriptor = 3, memoryDescriptor = 4;

/// kfuse-worker: $KFUSE_WORKER, else beside the running program or the library that holds this code, else in
/// bin or libexec/kfuse of the prefix that they were installed to. Io names the places.
Result<std::filesystem::path> findProgram();

/// A running worker; it ends with its handle.
class Process {
public:
  /// Starts kfuse-worker with `arguments`. By exec in a child that shares nothing: forking would copy the
  /// state of a driver that does not survive it.
  /// Once `stop` asks for it nothing is waited for any more on the channel, and none starts (Cancelled).
  static Result<Process> start(const std::vector<std::string> &arguments, const std::stop_token &stop = {});
  Process(Process &&other) noexcept;
  Process &operator=(Process &&other) noexcept;
  ~Process();

  Channel channel;
  SharedMemory memory;

  void kill();
  /// Waits until it has ended, which it has begun, and says how: "signal 11 (Segmentation fault)", "status 3".
  std::string howItEnded();

private:
  Process(pid_t id, Channel channel, SharedMemory memory)
      : channel(std::move(channel)), memory(std::move(memory)), id(id) {}
  bool waitFor(double seconds);

  pid_t id;
  int status = 0;
};

} // namespace kfuse::runtime::worker
