#include "tools/kfuse/console/Terminal.h"

#include "ir/Printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace kfuse::tools {
namespace {

std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return ir::printable(text);
}

} // namespace

bool isTerminal(int descriptor) { return isatty(descriptor) == 1; }

bool wantsColour() {
  const char *refused = std::getenv("NO_COLOR");
  return isTerminal(STDOUT_FILENO) && !(refused && *refused);
}

void showProgress(const Progress &at) {
  std::string best = at.bestUs > 0 ? fmt::format(", best {:.1f} us", at.bestUs) : "";
  std::string line = fmt::format("[{}/{}] {}: candidate {} of {}{}", at.kernelsDone + 1, at.kernels,
                                 ir::printable(at.kernel), at.candidatesDone, at.candidates, best);
  fmt::print(stderr, "\r\033[K{}", line.substr(0, 99));
  std::fflush(stderr);
}

void clearProgress() {
  if (isTerminal(STDERR_FILENO))
    fmt::print(stderr, "\r\033[K");
}

int fail(const Error &error) {
  if (error.code != ErrorCode::Cancelled)
    warn(error.message);
  return static_cast<int>(error.code);
}

void warn(const std::string &line) {
  clearProgress();
  fmt::print(stderr, "kfuse: {}\n", oneLine(line));
}

} // namespace kfuse::tools
