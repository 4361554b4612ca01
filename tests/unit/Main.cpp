#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

int main(int argc, char **argv) {
  setenv("KFUSE_WORKER", KFUSE_TEST_WORKER, 0); // Of this build.
  return doctest::Context(argc, argv).run();
}
