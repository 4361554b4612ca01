#include "TuneHelpers.h"

#include "runtime/IdleGpus.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
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

void TuneHelpers::start(const std::vector<int> &devices, std::size_t kernels) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  for (std::size_t i = 0; i < std::min(devices.size(), kernels); ++i) {
    std::vector<std::string> words{"kfuse"};
    words.insert(words.end(), arguments.begin(), arguments.end());
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
}

} // namespace kfuse::tools
