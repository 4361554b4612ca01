#include "tuner/report/SearchPlot.h"

#include "tuner/report/Svg.h"

#include <fmt/format.h>

#include <algorithm>

namespace kfuse::tuner {
namespace {

constexpr double width = 320, height = 150, left = 58, right = 12, top = 26, bottom = 24;

} // namespace

std::string searchPlot(const KernelReport &kernel, std::span<const Measurement> trials) {
  Svg svg(width, height, "curve", "Search of " + kernel.name + ": time of each candidate in order");
  double best = kernel.bound.boundUs, worst = best;
  for (const Measurement &trial : trials)
    if (trial.timing) {
      best = std::min(best, trial.timing->medianUs);
      worst = std::max(worst, trial.timing->medianUs);
    }
  const LogScale y{best / 1.15, worst * 1.15, height - bottom, top};
  auto x = [&](std::size_t i) {
    return left + (width - left - right) * (static_cast<double>(i) + 0.5) / static_cast<double>(trials.size());
  };
  svg.line(left, y(kernel.bound.boundUs), width - right, y(kernel.bound.boundUs), "bound");
  svg.text(left - 6, y(kernel.bound.boundUs) + 4, formatDuration(kernel.bound.boundUs), "end", "tick");
  if (y(kernel.bound.boundUs) - y(worst) > 16)
    svg.text(left - 6, y(worst) + 4, formatDuration(worst), "end", "tick");
  svg.text((left + width - right) / 2, height - 5,
           trials.size() == 1 ? "1 candidate" : fmt::format("{} candidates in order", trials.size()), "middle", "tick");

  std::string steps;
  double bestSoFar = 0, lastY = 0;
  const double radius = trials.size() > 60 ? 2 : 3.2;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Measurement &trial = trials[i];
    if (!trial.timing || (bestSoFar > 0 && trial.timing->medianUs >= bestSoFar))
      continue;
    bestSoFar = trial.timing->medianUs;
    if (!steps.empty())
      steps += fmt::format("{:.1f},{:.1f} ", x(i), lastY);
    lastY = y(bestSoFar);
    steps += fmt::format("{:.1f},{:.1f} ", x(i), lastY);
  }
  if (!steps.empty())
    svg.path(steps + fmt::format("{:.1f},{:.1f}", width - right, lastY), "best");
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Measurement &trial = trials[i];
    std::string tip = fmt::format("{} after {:.2f} s: {}", i + 1, trial.at - trials.front().at, trial.config.str());
    if (trial.timing)
      svg.circle(
          x(i), y(trial.timing->medianUs), radius, fmt::format("trial {}", toString(kernel.bound.regime)),
          fmt::format("{}\n{} +- {:.1f} %", tip, formatDuration(trial.timing->medianUs), 100 * trial.timing->spread));
    else if (trial.failure)
      svg.cross(x(i), 12, 3, "failed",
                fmt::format("{}\n{}: {}", tip, toString(trial.failure->kind), trial.failure->message));
  }
  return svg.str();
}

} // namespace kfuse::tuner
