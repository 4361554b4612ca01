// The first look at a candidate: whether it fits, whether it is right, and about how fast it is.
#pragma once

#include "tuner/search/SearchClock.h"
#include "tuner/search/TrialRunner.h"
#include "tuner/search/Tuner.h"

namespace kfuse::tuner {

class FirstLook {
public:
  /// All must outlive it.
  FirstLook(const TuningContext &context, TrialRunner &runner, SearchClock &clock, const Budget &budget)
      : context(context), runner(runner), clock(clock), budget(budget) {}

  /// Checks a compiled candidate, then measures it with firstLookSamples, or takes a long check's time. `bestUs` is the
  /// time of the fastest that is right so far, 0 before one is.
  MaybeFailure at(Trial &trial, double bestUs);
  /// From now on a candidate whose registers spill does not fail.
  void allowSpills() { maySpill = true; }

  /// How long a run may take.
  static double allowedSeconds(const Trial &trial, double bestUs);

private:
  MaybeFailure checkAndMeasure(Trial &trial, double bestUs);

  const TuningContext &context;
  TrialRunner &runner;
  SearchClock &clock;
  const Budget &budget;
  bool maySpill = false;
};

} // namespace kfuse::tuner
