// How the seconds of a whole model are shared between its kernels.
#pragma once

#include "tuner/TuningTask.h"

#include <chrono>
#include <map>

namespace kfuse::tuner {

/// Half of the time goes to the kernels in equal parts, half in proportion to the time that a run of the model is
/// expected to spend in them: the best estimate times the uses. What one kernel leaves goes to the others.
class TimeShares {
public:
  /// The clock starts here. 0 seconds: no limit.
  explicit TimeShares(double seconds)
      : end(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        isLimited(seconds > 0) {}

  void add(const TuningTask &task);
  /// Takes the task's share out; `unlimited` where there is no limit or the task was never added.
  double take(const TuningTask &task, double unlimited);

private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point end;
  bool isLimited;
  std::map<const TuningTask *, double> expectedUs; ///< Of those not taken.
};

} // namespace kfuse::tuner
