#include "tuner/Measurement.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kfuse::tuner {
namespace {

constexpr std::array<std::string_view, 7> failureNames{"compile", "spill",        "launch", "timeout",
                                                       "overrun", "wrong result", "crash"};

double median(std::vector<double> &values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0)
    return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

} // namespace

std::string_view toString(FailureKind kind) { return failureNames[static_cast<std::size_t>(kind)]; }

std::optional<FailureKind> parseFailureKind(std::string_view text) {
  const auto *found = std::find(failureNames.begin(), failureNames.end(), text);
  if (found == failureNames.end())
    return std::nullopt;
  return static_cast<FailureKind>(found - failureNames.begin());
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

double uncertainty(const Timing &timing) {
  const double n = std::max(timing.samples, 1);
  return std::max(0.01 * std::sqrt(10 / n), 3.64 * timing.spread / std::sqrt(n));
}

bool isSlower(const Timing &other, const Timing &best) {
  return other.medianUs * (1 - uncertainty(other)) > best.medianUs * (1 + uncertainty(best));
}

bool isTie(const Timing &best, const Timing &other) {
  double noise = std::clamp(best.spread + other.spread, 0.01, 0.03);
  return other.medianUs <= best.medianUs * (1 + noise);
}

} // namespace kfuse::tuner
