#include "tuner/search/TimeShares.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace kfuse::tuner {

void TimeShares::add(const TuningTask &task) {
  double best = std::numeric_limits<double>::infinity();
  for (const codegen::EstimatedConfig &candidate : task.space->candidates())
    if (candidate.us < best)
      best = candidate.us;
  expectedUs[&task] = std::isfinite(best) ? best * task.uses : 0;
}

double TimeShares::take(const TuningTask &task) {
  auto mine = expectedUs.find(&task);
  assert(mine != expectedUs.end());
  double total = 0;
  for (const auto &[other, us] : expectedUs)
    total += us;
  const double left = std::max(std::chrono::duration<double>(end - Clock::now()).count(), 1e-3);
  const double equal = 1 / static_cast<double>(expectedUs.size());
  const double share = total > 0 ? (equal + mine->second / total) / 2 : equal;
  expectedUs.erase(mine);
  return left * share;
}

} // namespace kfuse::tuner
