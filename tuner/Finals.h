// The fastest candidates, measured again in turns until one is left or the rest are within the noise.
#pragma once

#include "tuner/TrialRunner.h"

#include <chrono>
#include <functional>
#include <vector>

namespace kfuse::tuner {

/// Successive halving (Karnin, Koren and Somekh, ICML 2013) with confidence intervals: each round measures every
/// finalist four times, in the order A B B A A B B A, for the second arm of a pair reads slow, and a card at its power
/// limit changes its clocks within seconds; then those drop out that are slower than the fastest beyond both intervals;
/// the next round takes twice as many samples.
class Finals {
public:
  using Clock = std::chrono::steady_clock;
  /// Called for a finalist that fails in a measurement although it passed its check.
  using Reject = std::function<void(Trial, const Failure &)>;

  Finals(TrialRunner &runner, int rounds, Clock::time_point end) : runner(runner), rounds(rounds), end(end) {}

  /// What is left of `field`, fastest first, with timings from here; as given where time does not suffice.
  Result<std::vector<Trial>> play(std::vector<Trial> field, const Reject &reject);

private:
  struct Finalist {
    Trial trial;
    std::vector<double> times;
  };
  Result<void> playRound(std::vector<Finalist> &field, int samples, const Reject &reject);

  TrialRunner &runner;
  int rounds;
  Clock::time_point end;
  bool isWarm = false; ///< The device, from the visit before.
};

} // namespace kfuse::tuner
