// Parts of a test that run in processes of their own.
#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace kfuse::tuner::test {

/// Runs `body` in a child process; its exit status is the result of `body`.
inline pid_t spawn(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  return child;
}

/// The exit status; -1 when a signal ended the child.
inline int waitFor(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Sends a signal to the kfuse-workers of this process and returns how many there were.
inline int signalWorkers(int signal) {
  int reached = 0;
  for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat"); // "ID (NAME) STATE PARENT ...".
    std::string id, name, state;
    pid_t parent = 0;
    if (file >> id >> name >> state >> parent && name == "(kfuse-worker)" && parent == getpid() && state != "Z")
      reached += kill(std::stoi(id), signal) == 0 ? 1 : 0;
  }
  return reached;
}
inline int killWorkers() { return signalWorkers(SIGKILL); }

} // namespace kfuse::tuner::test
