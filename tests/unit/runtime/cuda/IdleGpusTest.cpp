#include "runtime/IdleGpus.h"
#include "tests/Skip.h"

#include <doctest/doctest.h>

#include <map>

using namespace kfuse::runtime;

namespace {

std::vector<GpuFacts> someGpus(int count) {
  std::vector<GpuFacts> gpus(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    gpus[static_cast<std::size_t>(i)].ordinal = i;
  return gpus;
}

/// Answers with the loads of GPUs by their ordinals; the others cannot be asked.
LoadOf saying(std::map<int, GpuLoad> loads) {
  return [loads = std::move(loads)](const GpuFacts &gpu) {
    auto found = loads.find(gpu.ordinal);
    return found == loads.end() ? std::nullopt : std::optional(found->second);
  };
}

std::vector<int> ordinalsOf(const std::vector<GpuFacts> &gpus) {
  std::vector<int> ordinals;
  for (const GpuFacts &gpu : gpus)
    ordinals.push_back(gpu.ordinal);
  return ordinals;
}

} // namespace

TEST_CASE("idle GPUs: all on which no process runs, whether GPU 0 is one of them or not") {
  const std::vector<GpuFacts> gpus = someGpus(4);
  CHECK(ordinalsOf(idleOf(gpus, saying({{0, {1, 0}}, {1, {0, 0}}, {2, {2, 90}}, {3, {0, 40}}}))) ==
        std::vector{1, 3}); // 40 %: of one that has just ended.
  CHECK(idleOf(gpus, saying({{0, {1, 0}}, {1, {1, 0}}, {2, {1, 0}}, {3, {1, 0}}})).empty());
  CHECK(idleOf({}, saying({})).empty());
}

TEST_CASE("idle GPUs: of busy ones that whose kernels take the least time, then the fewest processes, then the first") {
  const std::vector<GpuFacts> gpus = someGpus(3);
  CHECK(leastBusyOf(gpus, saying({{0, {1, 100}}, {1, {3, 30}}, {2, {1, 60}}})).ordinal == 1);
  CHECK(leastBusyOf(gpus, saying({{0, {2, 0}}, {1, {1, 0}}, {2, {1, 0}}})).ordinal == 1);
  CHECK(leastBusyOf(gpus, saying({{0, {1, 5}}, {1, {1, 5}}, {2, {1, 5}}})).ordinal == 0);
}

TEST_CASE("idle GPUs: one of which nothing can be told counts as idle") {
  GpuFacts unknown;
  unknown.ordinal = 3;
  unknown.id = "ffff:ff:1f.0"; // On no machine.
  CHECK(ordinalsOf(idleOf({unknown}, currentLoads())) == std::vector{3});
}

TEST_CASE("idle GPUs: those found are among those asked for") {
  kfuse::Result<std::vector<GpuFacts>> gpus = listGpus();
  if (!gpus) {
    kfuse::testing::skip("no GPU here");
    return;
  }
  CHECK(idleOf(*gpus, currentLoads()).size() <= gpus->size());
}
