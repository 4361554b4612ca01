// Limits of time that hold on a slow machine and on a busy one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>

namespace kfuse::tuner::test {

inline double wallMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Milliseconds of `work`: of this process's threads, which other processes lengthen by little. Work that waits instead
/// of computing counts as a quarter of the time that it takes.
template <class Work> double millisecondsOf(const Work &work) {
  const double wall = wallMs();
  const std::clock_t start = std::clock();
  work();
  return std::max(1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, (wallMs() - wall) / 4);
}

/// How many times as long a fixed piece of work takes as on the machine where limits were set (an AMD EPYC of 2.6 GHz
/// took 4.9 ms); at least 1.
inline double slowness() {
  static const double ms = [] {
    double best = INFINITY;
    for (int i = 0; i < 10; ++i)
      best = std::min(best, millisecondsOf([] {
                        std::map<std::string, int> numbers;
                        for (int n = 0; n < 10000; ++n)
                          numbers[std::to_string(n * 7919 % 10007)] = n;
                        if (numbers.size() != 10000) // Read, so that it is made.
                          std::abort();
                      }));
    return best;
  }();
  return std::max(1.0, ms / 4.9);
}

/// Milliseconds of the fastest of up to 30 tries of `work`; the first one within `limit` ends them: other processes can
/// make some slow, and none fast.
template <class Work> double fastest(double limit, const Work &work) {
  double best = INFINITY;
  for (int i = 0; i < 30 && best >= limit; ++i)
    best = std::min(best, millisecondsOf(work));
  return best;
}

/// Milliseconds of the wall from a moment on that `attempt` returns (in `wallMs`) to its end: of the faster of two
/// attempts; the second is made where the first one is not within `limit`. For what answers within a time, where busy
/// processors can make some answers late.
template <class Attempt> double soonest(double limit, const Attempt &attempt) {
  double best = INFINITY;
  for (int i = 0; i < 2 && best >= limit; ++i)
    best = std::min(best, attempt());
  return best;
}

} // namespace kfuse::tuner::test
