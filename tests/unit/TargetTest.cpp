#include "ir/Target.h"

#include <doctest/doctest.h>

#include <set>

using namespace kfuse;
using namespace kfuse::ir;

TEST_CASE("targets: the CPU first, names unique, facts plausible") {
  REQUIRE(!knownTargets().empty());
  CHECK(knownTargets().front().isCpu());
  std::set<std::string> names;
  for (const Target &target : knownTargets()) {
    CAPTURE(target.name);
    CHECK(names.insert(target.name).second);
    CHECK(target.isCpu() == (target.name == "cpu"));
    // FLOP per byte of DRAM traffic at which a kernel turns compute bound: machines of today lie in these.
    double halfIntensity = target.matmulFlopsPerUs(DType::BF16) / target.memoryBytesPerUs;
    CHECK(halfIntensity > 2);
    CHECK(halfIntensity < 400);
    CHECK(target.matmulFlopsPerUs(DType::F32) <= target.matmulFlopsPerUs(DType::F16));
    CHECK(target.launchUs > 0);
    CHECK(target.l2Bytes > 1e6);
  }
}

TEST_CASE("targets: found by name, with or without the suffix") {
  REQUIRE(findTarget("sm_90a"));
  CHECK(findTarget("sm_90") == findTarget("sm_90a"));
  CHECK(findTarget("sm_90a")->capability == 90);
  CHECK(findTarget("sm_80")->sharedBytesPerBlock == 163 * 1024);
  CHECK(!findTarget("sm_12"));
  CHECK(!findTarget(""));
}
