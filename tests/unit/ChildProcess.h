// Parts of a test that run in processes of their own.
#pragma once

#include <functional>
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

} // namespace kfuse::tuner::test
