// How the seconds of a whole model are shared between its kernels.
#pragma once

#include "tuner/search/TuningTask.h"

#include <chrono>
#include <map>

namespace kfuse::tuner {

/// Half of the time goes to the kernels in equal parts, half in proportion to the time that a run of the model is
/// expected to spend in them: the best estimate times the uses. What one kernel leaves goes to the others.
class TimeShares {
public:
  /// The clock starts here.
  explicit TimeShares(double seconds)
      : end(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  void add(const TuningTask &task);
  /// Takes the task, which was added, out with its share.
  double take(const TuningTask &task);

private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point end;
  std::map<const TuningTask *, double> expectedUs; ///< Those not taken.
};

} // namespace kfuse::tuner
