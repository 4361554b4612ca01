// kfuse-worker: runs kernels for kfuse, so that one which crashes or hangs takes only this process along.
// kfuse starts it: kfuse-worker cpu THREADS, kfuse-worker cuda ORDINAL.
#include "runtime/worker/Server.h"

#include <sys/resource.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

namespace {

std::optional<int> numberOf(std::string_view text) {
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? std::optional(number) : std::nullopt;
}

} // namespace

int main(int argc, char **argv) {
  namespace runtime = kfuse::runtime;
  std::optional<int> number = argc == 3 ? numberOf(argv[2]) : std::nullopt;
  bool isCpu = number && std::strcmp(argv[1], "cpu") == 0;
  if (!number || (!isCpu && std::strcmp(argv[1], "cuda") != 0)) {
    std::fputs("kfuse-worker is started by kfuse: it measures kernels in a process of their own\n", stderr);
    return static_cast<int>(kfuse::ErrorCode::Usage);
  }
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none); // Candidates that crash are expected.
  return runtime::worker::serve([&]() -> kfuse::Result<std::unique_ptr<runtime::Device>> {
    return isCpu ? runtime::openCpu(*number) : runtime::openCuda(*number);
  });
}
