#include "tools/kfuse/TuneHelpers.h"

#include "runtime/IdleGpus.h"
#include "tools/kfuse/console/Terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace kfuse::tools {

Result<std::vector<int>> checkDevices(const std::vector<int> &named) {
  std::vector<int> devices;
  for (int device : named)
    if (std::find(devices.begin(), devices.end(), device) == devices.end())
      devices.push_back(device);
  if (devices.empty())
    return devices;
  const Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus();
  const std::size_t count = gpus ? gpus->size() : 0;
  for (int device : devices)
    if (static_cast<std::size_t>(device) >= count)
      return Error{ErrorCode::NoDevice, fmt::format("there is no CUDA device {}: {} found, counted from 0; see kfuse "
                                                    "targets",
                                                    device, count)};
  return devices;
}

std::vector<int> devicesToTuneOn(const std::vector<int> &named) {
  if (!named.empty())
    return named;
  Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus();
  if (!gpus || gpus->empty())
    return {0};
  std::erase_if(*gpus, [kind = gpus->front().name](const runtime::GpuFacts &gpu) { return gpu.name != kind; });
  const runtime::LoadOf loadOf = runtime::currentLoads();
  std::vector<runtime::GpuFacts> chosen = runtime::idleOf(*gpus, loadOf);
  if (chosen.empty()) {
    chosen = {runtime::leastBusyOf(*gpus, loadOf)};
    warn(fmt::format("other processes compute on every {}: tuning on GPU {}, the least busy one; they may disturb "
                     "timings",
                     chosen.front().name, chosen.front().ordinal));
  }
  std::vector<int> ordinals;
  for (const runtime::GpuFacts &gpu : chosen)
    ordinals.push_back(gpu.ordinal);
  return ordinals;
}

TuneHelpers::~TuneHelpers() {
  for (pid_t process : processes)
    while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
}

unsigned TuneHelpers::start(const std::vector<int> &devices, std::size_t kernels) {
  const std::size_t count = std::min(devices.size(), kernels);
  std::vector<std::string> shared = arguments;
  if (std::find(shared.begin(), shared.end(), "--threads") == shared.end())
    shared.insert(
        shared.end(),
        {"--threads", std::to_string(std::max<std::size_t>(1, std::thread::hardware_concurrency() / (1 + count)))});
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  // A Ctrl-C at the terminal is this process's to handle: each of them would say so.
  posix_spawnattr_t group;
  posix_spawnattr_init(&group);
  posix_spawnattr_setpgroup(&group, 0);
  posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::string> words{"kfuse"};
    words.insert(words.end(), shared.begin(), shared.end());
    words.insert(words.end(), {"--devices", std::to_string(devices[i])});
    std::vector<char *> argv;
    for (std::string &word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t process = 0;
    if (posix_spawn(&process, "/proc/self/exe", &files, &group, argv.data(), environ) == 0)
      processes.push_back(process);
  }
  posix_spawnattr_destroy(&group);
  posix_spawn_file_actions_destroy(&files);
  ending.emplace(stop, [all = processes] {
    for (pid_t process : all)
      ::kill(process, SIGKILL);
  });
  return static_cast<unsigned>(processes.size());
}

} // namespace kfuse::tools
