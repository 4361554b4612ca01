// Runs the cases where there is a GPU; elsewhere counts them as skipped and exits with 77.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "runtime/Device.h"

#include <iostream>

int main(int argc, char **argv) {
  constexpr int skipped = 77;
  doctest::Context context(argc, argv);
  kfuse::Result<std::unique_ptr<kfuse::runtime::Device>> device = kfuse::runtime::openCuda();
  if (!device) {
    std::cout << "skipped: " << device.error().message << "\n";
    context.setOption("test-case-exclude", "*");
  }
  int status = context.run();
  return device || status != 0 || context.shouldExit() ? status : skipped;
}
