// kfuse-worker: runs kernels for kfuse, so that one which crashes or hangs takes only this process along, or compiles
// them, side by side with others. kfuse starts it: kfuse-worker cpu THREADS, kfuse-worker cuda ORDINAL, kfuse-worker
// nvrtc 0.
#include "runtime/worker/Server.h"

#include <sys/resource.h>

#include <charconv>
#include <cstdio>
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
  const std::string_view kind = number ? argv[1] : "";
  if (kind != "cpu" && kind != "cuda" && kind != "nvrtc") {
    std::fputs("kfuse-worker is started by kfuse: it compiles and measures kernels in a process of its own\n", stderr);
    return static_cast<int>(kfuse::ErrorCode::Usage);
  }
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none); // Candidates that crash are expected.
  if (kind == "nvrtc")
    return runtime::worker::serveCompiler(runtime::makeCudaCompiler);
  return runtime::worker::serve([&]() -> kfuse::Result<std::unique_ptr<runtime::Device>> {
    return kind == "cpu" ? runtime::openCpu(*number) : runtime::openCuda(*number);
  });
}
