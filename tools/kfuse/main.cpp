// kfuse: one program, a command for each thing that is done with model blocks.
#include "kfuse/error.h"
#include "tools/kfuse/Commands.h"
#include "tools/kfuse/bench/Bench.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

namespace {

constexpr const char *examples = R"(Examples:
  kfuse tune block.onnx                        tune for this machine, print a table
  kfuse tune block.onnx --target sm_90a --json compile for a GPU that is not here
  kfuse run block.onnx --check                 run on random inputs, compare with the reference
  kfuse explain block.onnx --target sm_90a     what fuses, why not more, bounds and memory
  kfuse pack block.onnx -o block.kfp           kernels for machines without a compiler
  kfuse db list                                what the tuning store knows
  kfuse quantize block.onnx -o small.onnx      weights in 4 bits, and what that costs each layer
  kfuse bench gemm --shapes 4096x4096x4096     matrix products beside cuBLASLt's best
Exit status: 0 done, 2 usage, 3 bad model, 4 no device or no CUDA compiler, 5 wrong result,
  6 not tuned, 7 out of memory, 8 a file cannot be read or written (a result that could not be
  stored, too), 9 ended by a signal, 10 generated code does not compile, 11 a kernel did not end,
  12 a kernel took its process down, 70 a bug of kfuse.
Environment: KFUSE_STORE, KFUSE_NVRTC (path of libnvrtc.so), KFUSE_WORKER (path of kfuse-worker),
  KFUSE_DUMP_DIR (IR after each pass, sources, logs), XDG_CACHE_HOME, NO_COLOR.)";

/// An empty word is most often a variable that a script forgot to set: no option, or name of a file, is one.
void refuseEmptyWords(CLI::App &command) {
  auto check = [](std::string &text) { return text.empty() ? std::string("is empty; give a value") : std::string(); };
  for (CLI::Option *option : command.get_options())
    if (option->get_items_expected_max() > 0)
      option->check(CLI::Validator(check, ""));
  for (CLI::App *below : command.get_subcommands(nullptr))
    refuseEmptyWords(*below);
}

int run(int argc, char **argv) {
  CLI::App app("kfuse: fuses, tunes and runs model blocks on GPUs and CPUs");
  app.footer(examples);
  app.set_version_flag("--version", "kfuse " KFUSE_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(26);
  int status = 0;
  kfuse::tools::addTune(app, status);
  kfuse::tools::addRun(app, status);
  kfuse::tools::addExplain(app, status);
  kfuse::tools::addTargets(app, status);
  kfuse::tools::addBench(app, status);
  kfuse::tools::addPack(app, status);
  kfuse::tools::addDb(app, status);
  kfuse::tools::addQuantize(app, status);
  refuseEmptyWords(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return app.exit(success); // --help, --version
  } catch (const CLI::RequiredError &error) {
    const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
    const bool isCommand = std::string(error.what()) == CLI::RequiredError::Subcommand(1).what();
    std::cerr << "kfuse: "
              << (isCommand && !unknown.empty() ? "there is no command '" + unknown.front() + "'" : error.what())
              << "; see kfuse --help\n";
    return static_cast<int>(kfuse::ErrorCode::Usage);
  } catch (const CLI::ParseError &error) {
    std::cerr << "kfuse: " << error.what() << "; see kfuse --help\n";
    return static_cast<int>(kfuse::ErrorCode::Usage);
  }
  return status;
}

/// A full disk behind `kfuse explain >file` shows when the last of the output is written.
int afterOutput(int status) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return status;
  std::cerr << "kfuse: standard output cannot be written: " << std::strerror(errno) << "\n";
  return static_cast<int>(kfuse::ErrorCode::Io);
}

} // namespace

int main(int argc, char **argv) {
  std::signal(SIGXFSZ, SIG_IGN); // A file that may grow no further is an error of the write, not the end.
  try {
    return afterOutput(run(argc, argv));
  } catch (const std::bad_alloc &) {
    std::cerr << "kfuse: out of memory; use a smaller model or shape\n";
    return static_cast<int>(kfuse::ErrorCode::OutOfMemory);
  } catch (const std::system_error &error) {
    std::cerr << "kfuse: " << error.what() << "\n"; // Output that cannot be written, too.
    return static_cast<int>(kfuse::ErrorCode::Io);
  } catch (const std::exception &error) {
    std::cerr << "kfuse: internal error: " << error.what() << "\n";
    return static_cast<int>(kfuse::ErrorCode::Internal);
  }
}
