// Processes that tune the same model on other GPUs of the host. The store is their queue: each takes the kernels that
// nobody has leased, and at the end all of them have all.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <sys/types.h>
#include <vector>

namespace kfuse::tools {

/// Those named, each once. NoDevice when one is not here.
Result<std::vector<int>> checkDevices(const std::vector<int> &named);

/// The CUDA ordinals to tune on, one at least. `named` ones are taken as they are; without any it is every idle GPU of
/// the kind of GPU 0, or where none is idle the least busy one, with a warning.
std::vector<int> devicesToTuneOn(const std::vector<int> &named);

class TuneHelpers {
public:
  /// `arguments` are those of `kfuse` but for --devices and, where each is to have its part of the cores, --threads.
  /// Once `stop` asks for it they are ended: the store bears it, and what they measured is in it.
  TuneHelpers(std::vector<std::string> arguments, std::stop_token stop)
      : arguments(std::move(arguments)), stop(std::move(stop)) {}
  /// Waits for them: what they have begun is what the others lack.
  ~TuneHelpers();
  TuneHelpers(const TuneHelpers &) = delete;
  TuneHelpers &operator=(const TuneHelpers &) = delete;

  /// One on each device, as far as there are kernels for them. One that cannot be started is missed by nobody:
  /// the others do its work. Returns how many there are.
  unsigned start(const std::vector<int> &devices, std::size_t kernels);

private:
  std::vector<std::string> arguments;
  std::stop_token stop;
  std::vector<pid_t> processes;
  std::optional<std::stop_callback<std::function<void()>>> ending;
};

} // namespace kfuse::tools
