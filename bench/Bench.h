// What the bench programs share: they end at the first error, and report medians.
#pragma once

#include "kfuse/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
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

/// Takes `--name value` out of a command's words; "" where it is not there.
inline std::string takeOption(std::vector<std::string> &words, std::string_view name) {
  const auto found = std::find(words.begin(), words.end(), name);
  if (found == words.end() || found + 1 == words.end())
    return "";
  std::string value = found[1];
  words.erase(found, found + 2);
  return value;
}

/// The upper one of an even number.
inline double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

} // namespace kfuse::bench
