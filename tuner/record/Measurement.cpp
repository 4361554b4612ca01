#include "tuner/record/Measurement.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kfuse::tuner {
namespace {

constexpr std::array<std::string_view, 7> failureNames{"compile", "spill",        "launch", "timeout",
                                                       "overrun", "wrong result", "crash"};

} // namespace

std::string_view toString(FailureKind kind) { return failureNames[static_cast<std::size_t>(kind)]; }

std::optional<FailureKind> parseFailureKind(std::string_view text) {
  const auto *found = std::find(failureNames.begin(), failureNames.end(), text);
  if (found == failureNames.end())
    return std::nullopt;
  return static_cast<FailureKind>(found - failureNames.begin());
}

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0)
    return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Timing summarise(std::vector<double> samplesUs) {
  Timing timing;
  timing.samples = static_cast<int>(samplesUs.size());
  timing.medianUs = median(samplesUs);
  for (double &sample : samplesUs)
    sample = std::abs(sample - timing.medianUs);
  timing.spread = timing.medianUs > 0 ? median(samplesUs) / timing.medianUs : 0;
  return timing;
}

} // namespace kfuse::tuner
