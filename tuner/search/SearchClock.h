// How much of its time a search has left.
#pragma once

#include <chrono>

namespace kfuse::tuner {

class SearchClock {
public:
  using Clock = std::chrono::steady_clock;

  /// The share `kept` of `seconds` is for the finals.
  SearchClock(double seconds, double kept) : seconds(seconds), keptSeconds(kept * seconds) {}

  Clock::time_point start() const { return begun; }
  /// What was spent waiting for other processes, or for the device, does not count.
  void extend(Clock::duration waited) { begun += waited; }
  double secondsLeft() const { return seconds - std::chrono::duration<double>(Clock::now() - begun).count(); }
  /// Whether another candidate, if it takes as long as the last, would take time that is kept.
  bool isOutOfTime() const { return secondsLeft() < keptSeconds + lastSeconds; }
  void lastTook(double trialSeconds) { lastSeconds = trialSeconds; }
  /// The moment at which so large a share of the time is over.
  Clock::time_point at(double share) const {
    return begun + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(share * seconds));
  }

private:
  double seconds, keptSeconds, lastSeconds = 0;
  Clock::time_point begun = Clock::now();
};

} // namespace kfuse::tuner
