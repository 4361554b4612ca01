#include "TuneHelpers.h"

#include "runtime/IdleGpus.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace kfuse::tools {

std::vector<int> devicesToTuneOn(const std::vector<int> &named) {
  if (!named.empty())
    return named;
  std::vector<int> devices{0};
  Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus();
  if (!gpus || gpus->size() < 2)
    return devices;
  for (const runtime::GpuFacts &gpu : runtime::idleOf(*gpus))
    if (gpu.ordinal != 0 && gpu.name == gpus->front().name)
      devices.push_back(gpu.ordinal);
  return devices;
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
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::string> words{"kfuse"};
    words.insert(words.end(), shared.begin(), shared.end());
    words.insert(words.end(), {"--devices", std::to_string(devices[i])});
    std::vector<char *> argv;
    for (std::string &word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t process = 0;
    if (posix_spawn(&process, "/proc/self/exe", &files, nullptr, argv.data(), environ) == 0)
      processes.push_back(process);
  }
  posix_spawn_file_actions_destroy(&files);
  return static_cast<unsigned>(processes.size());
}

} // namespace kfuse::tools
