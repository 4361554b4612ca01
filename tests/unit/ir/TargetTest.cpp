#include "ir/Target.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

using namespace kfuse;
using namespace kfuse::ir;

TEST_CASE("targets: the CPU first, names unique, facts plausible") {
  REQUIRE(!knownTargets().empty());
  CHECK(knownTargets().front().isCpu());
  std::vector<Target> all(knownTargets().begin(), knownTargets().end());
  all.insert(all.end(), knownCards().begin(), knownCards().end());
  std::set<std::string> names;
  for (const Target &target : all) {
    CAPTURE(target.title());
    CHECK(names.insert(target.title()).second);
    CHECK(target.isCpu() == (target.name == "cpu"));
    CHECK(target.multiprocessors >= (target.isCpu() ? 0 : 16));
    // FLOP per byte of DRAM traffic at which a kernel turns compute bound: machines of today lie in these (419: L40S).
    double halfIntensity = target.matmulFlopsPerUs(DType::BF16) / target.memoryBytesPerUs;
    CHECK(halfIntensity > 2);
    CHECK(halfIntensity < 450);
    CHECK(target.matmulFlopsPerUs(DType::F32) <= target.matmulFlopsPerUs(DType::F16));
    CHECK(target.launchUs > 0);
    CHECK(target.l2Bytes > 1e6);
  }
}

TEST_CASE("targets: cards are found by what devices call themselves, and by words of a command line") {
  const Target &hopper = *findTarget("sm_90a"), &ada = *findTarget("sm_89");
  CHECK(targetOfDevice(hopper, "NVIDIA H100 PCIe").multiprocessors == 114);
  CHECK(targetOfDevice(hopper, "NVIDIA H100 80GB HBM3").memoryBytesPerUs == doctest::Approx(3.35e6));
  CHECK(targetOfDevice(hopper, "NVIDIA H200").card == "H200");
  CHECK(targetOfDevice(hopper, "NVIDIA H20").multiprocessors == 78);
  CHECK(targetOfDevice(ada, "NVIDIA L4").multiprocessors == 58);
  CHECK(targetOfDevice(ada, "NVIDIA L40S").multiprocessors == 142);
  CHECK(targetOfDevice(ada, "NVIDIA L40").f32FlopsPerUs == doctest::Approx(90.5e6));
  CHECK(&targetOfDevice(ada, "NVIDIA L400") == &ada); // There is no such card: no row, and no "L40".
  CHECK(targetOfDevice(ada, "NVIDIA L4-24Q").card == "L4");
  CHECK(targetOfDevice(*findTarget("sm_103a"), "NVIDIA B300 SXM6 AC").card == "B300");
  CHECK(&targetOfDevice(hopper, "NVIDIA H900") == &hopper); // No row.
  CHECK(&targetOfDevice(hopper, "NVIDIA L4") == &hopper);   // Another architecture's.
  REQUIRE(findTarget("h100-pcie"));
  CHECK(findTarget("h100-pcie")->card == "H100 PCIe");
  CHECK(findTarget("RTX PRO 6000")->name == "sm_120a");
  CHECK(findTarget("b300")->title() == "B300 (sm_103a)");
  CHECK(hopper.title() == "sm_90a");
  for (const Target &card : knownCards()) {
    CAPTURE(card.card);
    REQUIRE(findTarget(card.name));
    CHECK(findTarget(card.name)->card.empty());
    CHECK(findTarget(card.card) == &card);
    CHECK(card.sharedBytesPerBlock == findTarget(card.name)->sharedBytesPerBlock);
  }
}

TEST_CASE("targets: a part of a GPU has its share of the rates") {
  const Target half = withMultiprocessors(*findTarget("sm_90a"), 66);
  CHECK(half.multiprocessors == 66);
  CHECK(half.halfFlopsPerUs == doctest::Approx(findTarget("sm_90a")->halfFlopsPerUs / 2));
  CHECK_FALSE(half == *findTarget("sm_90a"));
}

TEST_CASE("targets: found by name, with or without the suffix") {
  REQUIRE(findTarget("sm_90a"));
  CHECK(findTarget("sm_90") == findTarget("sm_90a"));
  CHECK(findTarget("sm_90a")->capability == 90);
  CHECK(findTarget("sm_80")->sharedBytesPerBlock == 163 * 1024);
  CHECK(!findTarget("sm_12"));
  CHECK(!findTarget(""));
}
