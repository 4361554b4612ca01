// Timed runs, one after the other.
#pragma once

#include "runtime/Device.h"

#include <chrono>

namespace kfuse::runtime {

/// Takes `options.repetitions` samples, or those that begin within `options.maxSeconds` of `begin`; one at least.
/// `sample` gives the microseconds of a run, or the Error that ends it all.
template <class Sample>
Result<std::vector<double>> takeSamples(const MeasureOptions &options, std::chrono::steady_clock::time_point begin,
                                        Sample sample) {
  const auto end = begin + std::chrono::duration<double>(options.maxSeconds);
  std::vector<double> samples;
  do {
    Result<double> us = sample();
    if (!us)
      return us.error();
    samples.push_back(*us);
  } while (static_cast<int>(samples.size()) < options.repetitions && std::chrono::steady_clock::now() <= end);
  return samples;
}

} // namespace kfuse::runtime
