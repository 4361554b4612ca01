#include "tuner/model/Buckets.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace kfuse::tuner {
namespace {

constexpr double worthKeeping = 0.03;    ///< A program of its own has to save as much.
constexpr std::int64_t powersUpTo = 256; ///< Up to here weights take most of a layer's time.

} // namespace

std::vector<std::int64_t> ladder(std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> rungs;
  for (std::int64_t power = 1; power < high; power *= 2)
    for (std::int64_t rung = power; rung < std::min(2 * power, high); rung += power < powersUpTo ? power : power / 4)
      if (rung >= low)
        rungs.push_back(rung);
  rungs.push_back(high);
  return rungs;
}

std::vector<double> weightsOf(std::span<const std::int64_t> rungs, std::int64_t low, std::size_t dim,
                              std::span<const LengthCount> histogram) {
  std::vector<double> weights(rungs.size());
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    const std::int64_t above = i == 0 ? low - 1 : rungs[i - 1];
    if (histogram.empty())
      weights[i] = std::log((static_cast<double>(rungs[i]) + 0.5) / (static_cast<double>(above) + 0.5));
    for (const LengthCount &one : histogram)
      weights[i] += one.lengths[dim] > above && one.lengths[dim] <= rungs[i] ? one.count : 0;
  }
  return weights;
}

std::size_t medianOf(std::span<const double> weights) {
  double left = std::accumulate(weights.begin(), weights.end(), 0.0) / 2;
  std::size_t i = 0;
  while (i + 1 < weights.size() && (left -= weights[i]) > 0)
    ++i;
  return i;
}

std::vector<std::size_t> planningOrder(std::size_t count, std::size_t middle) {
  std::vector<std::size_t> order{middle};
  for (std::size_t i = count; i-- > 0;)
    if (i != middle)
      order.push_back(i);
  return order;
}

std::vector<std::int64_t> mergeRungs(std::span<const std::int64_t> rungs, std::span<const double> weights,
                                     const std::function<double(std::size_t rung, std::size_t top)> &us) {
  std::vector<std::int64_t> kept;
  for (std::size_t next = rungs.size(); next > 0;) {
    const std::size_t top = --next;
    kept.push_back(rungs[top]);
    double apart = weights[top] * us(top, top), together = apart;
    for (; next > 0; --next) { // The one below joins.
      apart += weights[next - 1] * us(next - 1, next - 1);
      together += weights[next - 1] * us(next - 1, top);
      if (together > apart * (1 + worthKeeping))
        break;
    }
  }
  std::ranges::reverse(kept);
  return kept;
}

} // namespace kfuse::tuner
