// Which candidates a search tries, and in which order.
#include "SearchFixture.h"

#include "tuner/search/Candidates.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

TEST_CASE("candidates: what cannot fit is dropped before it is compiled") {
  const ir::Target &target = *ir::findTarget("sm_80");
  codegen::KernelPlan plan;
  plan.launches = {{}};
  CHECK_FALSE(whyNotFit(plan, target));
  plan.launches[0].sharedBytes = 170000;
  CHECK(whyNotFit(plan, target) == "170000 bytes of shared memory, sm_80 has 166912");
  plan.launches[0].sharedBytes = 0;
  plan.launches[0].block = {1024, 2, 1};
  CHECK(whyNotFit(plan, target) == "2048 threads a block, at most 1024");
  plan.launches[0].block = {1024, 1, 1};
  CHECK(whyNotFit(plan, runtime::ResourceFacts{.registers = 65}, target) ==
        "72 registers for each of 1024 threads, sm_80 has 65536");
  CHECK(whyNotFit(plan, runtime::ResourceFacts{.staticSharedBytes = 65536}, target) ==
        "65536 bytes of static shared memory, at most 49152");
  plan.launches[0].cluster = {2, 1, 1};
  CHECK(whyNotFit(plan, target) == "clusters, which sm_80 does not have");
}

namespace {

/// The ids of candidates in the order in which they are tried.
std::vector<std::int64_t> orderOf(const TuningTask &task, const std::optional<codegen::TileConfig> &seed = {}) {
  const ir::Target &target = *ir::findTarget("sm_80");
  CandidateQueue queue(task, target, nominalPeaks(target), "compiler", "device", seed);
  std::vector<std::int64_t> ids;
  while (std::optional<Candidate> candidate = queue.next())
    ids.push_back(candidate->config["id"]);
  return ids;
}

Script scriptOf(std::initializer_list<int> ids) {
  Script script;
  for (int id : ids)
    script.emplace(id, Behaviour{});
  return script;
}

} // namespace

TEST_CASE("candidates: the best of each group comes first, unless its estimate is hopeless") {
  TuningTask task = makeTask(scriptOf({10, 11, 12, 13, 14}));
  CHECK((orderOf(task) == std::vector<std::int64_t>{10, 11, 12, 13, 14}));
  // The best is 10 us: 13 may win, 14 is more than a fifth and 1.1 us above.
  functionsOf(task).onEstimateGroup = [](const codegen::TileConfig &config) {
    return std::max<std::int64_t>(config["id"], 12);
  };
  CHECK((orderOf(task) == std::vector<std::int64_t>{10, 13, 11, 12, 14}));
}

TEST_CASE("candidates: of one kind each further one waits for others within 4 %") {
  // In per mille of the best; those below 1100 are of one kind but for 1030, 1035 and 1090.
  TuningTask task = makeTask(scriptOf({1000, 1001, 1002, 1030, 1035, 1090, 1100, 1101}));
  auto isAlone = [](std::int64_t id) { return id == 1030 || id == 1035 || id == 1090; };
  functionsOf(task).onKindOf = [&](const codegen::TileConfig &config) {
    const std::int64_t id = config["id"];
    return codegen::TileConfig{{"kind", isAlone(id) ? id : id < 1100 ? 0 : 1}};
  };
  CHECK((orderOf(task) == std::vector<std::int64_t>{1000, 1030, 1035, 1001, 1002, 1090, 1100, 1101}));
  CHECK((orderOf(task, codegen::TileConfig{{"id", 1002}}) ==
         std::vector<std::int64_t>{1002, 1030, 1035, 1000, 1001, 1090, 1100, 1101}));
  functionsOf(task).onEstimateGroup = [](const codegen::TileConfig &config) { return config["id"] >= 1100 ? 1 : 0; };
  CHECK((orderOf(task) == std::vector<std::int64_t>{1000, 1100, 1030, 1035, 1001, 1002, 1090, 1101}));
}

TEST_CASE("candidates: which of one kind comes first does not depend on the order that the template lists them in") {
  TuningTask task = makeTask(scriptOf({20, 21, 22, 23}));
  functionsOf(task).onCandidates = [] {
    std::vector<codegen::EstimatedConfig> candidates;
    for (std::int64_t id : {23, 22, 21, 20})
      candidates.push_back({5, {{"id", id}}});
    return candidates;
  };
  functionsOf(task).onKindOf = [](const codegen::TileConfig &config) {
    return codegen::TileConfig{{"kind", config["id"] / 22}};
  };
  CHECK((orderOf(task) == std::vector<std::int64_t>{20, 22, 21, 23}));
}
