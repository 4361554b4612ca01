#include "tuner/search/Standings.h"

#include "tuner/record/Measurement.h"

#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace kfuse::tuner {
namespace {

constexpr double leastNoise = 0.002; ///< The noise of a turn: what four of them show may be less by chance.

/// Standard deviation.
double noiseOf(const std::vector<double> &values) {
  if (values.size() < 2)
    return 0;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0;
  for (double value : values)
    squares += std::pow(value - mean, 2);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

/// Standard errors, as the samples tell them, by which a mean is off at most with 95 % confidence: 3.18 with 4 samples,
/// 2.04 with 32.
double confidenceOf(std::size_t samples) {
  const double freedom = std::max(static_cast<double>(samples) - 1, 1.0);
  return boost::math::quantile(boost::math::students_t(freedom), 0.975);
}

std::vector<double> minus(std::vector<double> a, const std::vector<double> &b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::minus());
  return a;
}

} // namespace

std::vector<Standing> standingsOf(std::span<const Turns> runnersUp) {
  if (runnersUp.empty())
    return {};
  std::vector<std::vector<double>> levels; // Each runner-up's logarithm of each turn.
  for (const Turns &runnerUp : runnersUp) {
    std::vector<double> &own = levels.emplace_back();
    for (double us : runnerUp)
      own.push_back(std::log(std::max(us, leastUs)));
  }
  const std::size_t turns = levels.front().size();
  const double confidence = confidenceOf(turns);
  std::vector<double> turnLevels(turns);
  for (const std::vector<double> &own : levels)
    std::transform(own.begin(), own.end(), turnLevels.begin(), turnLevels.begin(), std::plus());
  for (double &level : turnLevels)
    level /= static_cast<double>(levels.size());
  const auto fastest = std::min_element(levels.begin(), levels.end(), [&](const auto &a, const auto &b) {
    return median(minus(a, turnLevels)) < median(minus(b, turnLevels));
  });
  std::vector<Standing> standings;
  for (const std::vector<double> &own : levels) {
    const std::vector<double> behind = minus(own, *fastest);
    // 1.2533: the deviation of a median of normal noise over that of a mean.
    const double error =
        confidence * 1.2533 * std::max(noiseOf(behind), leastNoise) / std::sqrt(static_cast<double>(turns));
    standings.push_back(&own == &*fastest ? Standing{} : Standing{median(behind), error});
  }
  return standings;
}

std::vector<bool> undecidedOf(std::span<const Standing> standings, double tie) {
  std::vector<bool> mayWin(standings.size()), mayBeFastest(standings.size());
  bool isDecided = false;
  for (std::size_t i = 0; i < standings.size(); ++i) {
    const Standing &own = standings[i];
    mayWin[i] = !isDecided && own.behind - own.error <= tie;
    mayBeFastest[i] = own.behind - own.error <= 0;
    isDecided |= own.behind + own.error <= tie;
  }
  if (std::count(mayWin.begin(), mayWin.end(), true) > 1)
    std::transform(mayWin.begin(), mayWin.end(), mayBeFastest.begin(), mayWin.begin(), std::logical_or());
  return mayWin;
}

std::size_t winnerOf(std::span<const Standing> standings, double tie) {
  return static_cast<std::size_t>(
      std::find_if(standings.begin(), standings.end(), [tie](const Standing &own) { return own.behind <= tie; }) -
      standings.begin());
}

} // namespace kfuse::tuner
