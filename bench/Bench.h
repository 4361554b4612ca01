// What the bench programs share: they end at the first error, and report medians.
#pragma once

#include "kfuse/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace kfuse::bench {

inline void succeed(const Result<void> &result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(static_cast<int>(result.error().code));
  }
}
template <class T> T take(Result<T> result) {
  if (!result)
    succeed(result.error());
  return std::move(*result);
}

/// The upper one of an even number.
inline double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

} // namespace kfuse::bench
