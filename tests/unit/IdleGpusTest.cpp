#include "runtime/IdleGpus.h"

#include <doctest/doctest.h>

using namespace kfuse::runtime;

TEST_CASE("idle GPUs: one of which nothing can be told counts as idle") {
  GpuFacts unknown;
  unknown.ordinal = 3;
  unknown.id = "ffff:ff:1f.0"; // On no machine.
  CHECK(idleOf({}).empty());
  std::vector<GpuFacts> idle = idleOf({unknown});
  REQUIRE(idle.size() == 1);
  CHECK(idle.front().ordinal == 3);
}

TEST_CASE("idle GPUs: those found are among those asked for") {
  kfuse::Result<std::vector<GpuFacts>> gpus = listGpus();
  if (!gpus) {
    MESSAGE("skipped: no GPU here");
    return;
  }
  CHECK(idleOf(*gpus).size() <= gpus->size());
}
