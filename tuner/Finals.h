// The fastest candidates, measured again in turns until one is left or the rest are within the noise.
#pragma once

#include "tuner/TrialRunner.h"

#include <chrono>
#include <functional>
#include <vector>

namespace kfuse::tuner {

/// Successive halving (Karnin, Koren and Somekh, ICML 2013) with confidence intervals: each round visits every
/// finalist in four turns, in the order A B B A A B B A, for the second arm of a pair reads slow; then those drop out
/// that are slower than the fastest beyond both intervals and the noise; the next round takes twice as many samples.
/// The order is the one given, in all rounds: who comes behind whom counts, and is to count alike in every run.
///
/// A card at its power limit changes its clocks within seconds, for all alike. So a turn's times are scaled by how
/// slow the turn was: the geometric mean of all finalists in it over that of all turns.
class Finals {
public:
  using Clock = std::chrono::steady_clock;
  /// Called for a finalist that fails in a measurement although it passed its check.
  using Reject = std::function<void(Trial, const Failure &)>;

  Finals(TrialRunner &runner, int rounds, Clock::time_point end) : runner(runner), rounds(rounds), end(end) {}

  /// Both fastest first, with timings from here; as given where time does not suffice.
  struct Outcome {
    std::vector<Trial> left, dropped;
  };
  Result<Outcome> play(std::vector<Trial> field, const Reject &reject);

private:
  struct Finalist {
    Trial trial;
    std::vector<std::vector<double>> visits; ///< One for each turn so far: their microseconds.
  };
  Result<void> playRound(std::vector<Finalist> &field, int round, const Reject &reject);
  static void summariseVisits(std::vector<Finalist> &field);
  static bool areInOrder(const Finalist &a, const Finalist &b);

  TrialRunner &runner;
  int rounds;
  Clock::time_point end;
  bool isWarm = false; ///< The device, from the visit before.
};

} // namespace kfuse::tuner
