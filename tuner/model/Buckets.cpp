#include "tuner/model/Buckets.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace kfuse::tuner {
namespace {

/// The rung behind one between `power` and its double. Up to 64 rows weights take a layer's time; from 1024 on an
/// eighth is a tile of 128 rows and more.
std::int64_t stepOf(std::int64_t power) { return power < 64 ? power : power < 1024 ? power / 4 : power / 8; }

/// The share of its time that a run may lose by the program of longer ones, however rare it is. What was measured was
/// up to 0.1 more than estimated.
constexpr double mostLoss = 0.06;

} // namespace

std::vector<std::int64_t> ladder(std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> rungs;
  for (std::int64_t power = 1; power < high; power *= 2)
    for (std::int64_t rung = power; rung < std::min(2 * power, high); rung += stepOf(power))
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
                                     double worthKeeping,
                                     const std::function<double(std::size_t rung, std::size_t top)> &us) {
  struct Best {
    double cost = INFINITY;
    std::size_t first = 0; ///< The lowest rung of the last program.
  };
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<Best> best(rungs.size() + 1); // For the first so many rungs.
  best[0].cost = 0;
  for (std::size_t top = 0; top < rungs.size(); ++top) {
    double longer = 0;
    for (std::size_t first = top + 1; first-- > 0;) {
      if (const double own = us(first, first); weights[first] > 0 && own > 0) { // A program without kernels takes none.
        const double loss = us(first, top) / own - 1;
        if (loss > mostLoss)
          break;
        longer += weights[first] / all * loss;
      }
      if (const double cost = best[first].cost + longer + worthKeeping; cost < best[top + 1].cost)
        best[top + 1] = {cost, first};
    }
  }
  std::vector<std::int64_t> kept;
  for (std::size_t end = rungs.size(); end > 0; end = best[end].first)
    kept.push_back(rungs[end - 1]);
  std::ranges::reverse(kept);
  return kept;
}

} // namespace kfuse::tuner
