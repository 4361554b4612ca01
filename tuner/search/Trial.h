// A candidate on its way through the search.
#pragma once

#include "tuner/record/Measurement.h"
#include "tuner/search/Bench.h"
#include "tuner/search/Candidates.h"

#include <memory>
#include <vector>

namespace kfuse::tuner {

struct Trial {
  Candidate candidate;
  Measurement measurement;
  runtime::CompiledKernel binary;
  std::vector<std::unique_ptr<runtime::LoadedKernel>> earlierLoads; ///< Kept, so that the next one lies elsewhere.
  std::unique_ptr<runtime::LoadedKernel> loaded;                    ///< Null while all that is known is from the store.
  PreparedRuns runs;                                                ///< The runs of `loaded`.
  int life = 0;                                                     ///< The life of the device it was loaded in.
  int timesMisled = 0;                                              ///< Bench's, when it was found right.
  double sampleSeconds = 0; ///< What a sample of the first look took, all in all; 0 without one.

  double medianUs() const { return measurement.timing->medianUs; }
};

inline bool isFaster(const Trial &a, const Trial &b) { return a.medianUs() < b.medianUs(); }

/// Order of candidates that are equally fast: the same on every run and machine.
bool isPreferred(const Trial &a, const Trial &b);

} // namespace kfuse::tuner
