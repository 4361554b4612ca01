#include "tuner/search/TimeShares.h"

#include "TaskFunctions.h"

#include <doctest/doctest.h>

#include <array>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

TuningTask expecting(double us, int uses) {
  TuningTask task = taskOfFunctions();
  task.uses = uses;
  functionsOf(task).onCandidates = [us] {
    return std::vector<codegen::EstimatedConfig>{{us, {{"id", 1}}}, {2 * us, {{"id", 2}}}};
  };
  return task;
}

} // namespace

TEST_CASE("TimeShares: half in equal parts, half by expected time; what is left goes to the others") {
  std::array<TuningTask, 2> tasks{expecting(10, 9), expecting(30, 1)}; // 90 and 30 us a run.
  TimeShares shares(100);
  for (const TuningTask &task : tasks)
    shares.add(task);
  CHECK(shares.take(tasks[0]) == doctest::Approx(100 * (0.5 + 0.75) / 2).epsilon(0.01));
  CHECK(shares.take(tasks[1]) == doctest::Approx(100).epsilon(0.01)); // The first took no time.
}

TEST_CASE("TimeShares: kernels of which nothing is expected") {
  TuningTask task = expecting(0, 1);
  TimeShares shares(10);
  shares.add(task);
  CHECK(shares.take(task) == doctest::Approx(10).epsilon(0.01));
}
