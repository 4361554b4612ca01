// The fastest candidates, measured again, interleaved, until it is decided which of them is chosen.
#pragma once

#include "tuner/search/Standings.h"
#include "tuner/search/TrialRunner.h"
#include "tuner/search/Tuner.h"

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace kfuse::tuner {

/// Finalists within a tie's width of the fastest are one, which the first of them in the order of preference wins. A
/// turn visits each once, in the order A B C, C B A, ...; a round is as many turns as pass before anybody leaves: 1, 3,
/// 4, 8, ... After the first round those leave that are 8 % behind in it and were before, after each later one those
/// whose place is decided and matters no more. The finals end when the winner is decided: with 95 % confidence
/// (Student's t of the turns' medians) it is in the tie, and all before it are not. They also end before a turn for
/// which no time is left, be it of the search or, after the first round, of what a search should take.
///
/// A card at its power limit changes its clocks within seconds for all alike, so finalists are compared turn by turn. A
/// visit of 4 ms there is off by 0.4 to 1 %, one of 13 or 30 ms by 1 % and more (on an H200, where neither its
/// neighbours in time nor another process shift it the same way), so visits are short and many. In finals simulated
/// from such visits of 4 products, two processes chose two configs for 0.8 of the products with 8 turns of 8 ms visits,
/// for 0.2 with 8 turns of 4 ms, and for none with turns until the winner was decided.
/// A card at its power limit gives all that runs within some 50 ms one clock. A run of 10 ms and more has a clock of
/// its own in any model, the higher the less energy it takes: with time for that, visits of such kernels are as long.
///
/// Where in memory its code lies shifts a short kernel by 20 to 60 ns, 0.2 to 0.7 % of one of 7 to 30 us, for as long
/// as it stays there; in another process it lies elsewhere. So short kernels are loaded anew for each pair of turns.
class Finals {
public:
  using Clock = std::chrono::steady_clock;
  /// Called for a finalist that fails in a measurement although it passed its check.
  using Reject = std::function<void(Trial, const Failure &)>;

  /// Belongs to a search that began at `start`: no turn is begun that would end after
  /// `budget.seconds` or, once the first four are played (two, where a run takes 10 ms), after `budget.wantedSeconds`.
  Finals(TrialRunner &runner, const Budget &budget, Clock::time_point start);

  struct Outcome {
    std::optional<Trial> winner; ///< When all that were left at the end failed, the fastest that left before.
    std::vector<Trial> others;
  };
  /// `trials` come in the order of preference. Their timings are from here, unless time does not suffice for a turn.
  /// There is no winner when all fail.
  Result<Outcome> play(std::vector<Trial> trials, const Reject &reject);

private:
  struct Finalist {
    Trial trial;
    double visitSeconds;                     ///< What the last visit took; before any, what one should take.
    std::vector<std::vector<double>> visits; ///< Each turn's samples, in microseconds.
  };
  Result<void> playRound(std::vector<Finalist> &field, int round, const Reject &reject);
  static std::vector<bool> hopefulOf(const std::vector<Finalist> &field);
  MaybeFailure visit(Finalist &finalist, double seconds);
  bool isDueElsewhere(const Finalist &finalist) const;
  bool hasTimeForTurn(const std::vector<Finalist> &field, int round) const;
  static void summariseVisits(std::vector<Finalist> &all);
  static std::vector<Standing> standingsOf(const std::vector<Finalist> &field);

  bool hasOwnClock(const Trial &trial) const { return trial.medianUs() > ownClockUs; }
  double warmupMsOf(const Trial &trial, bool isWarm) const;
  double sampledUsOf(const Trial &trial) const;
  double sampleUsOf(const Trial &trial) const;
  double visitSecondsOf(const Trial &trial) const;

  TrialRunner &runner;
  int rounds;
  double tie, runsPerSample, singleRunUs, movedUs, ownClockUs;
  Clock::time_point wantedEnd, end;
  bool isWarm = false; ///< The visit before has warmed up the device.
};

} // namespace kfuse::tuner
