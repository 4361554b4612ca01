#include "tuner/Finals.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr double tie = 0.01;         ///< Of logarithms of times.
constexpr int firstTurns = 4;        ///< Of the first round; each later one has as many as all before.
constexpr double warmupMs = 2;       ///< Of each visit, and ...
constexpr double visitUs = 2000;     ///< ... of its samples, about.
constexpr double firstWarmupMs = 60; ///< Of the very first, before which the card may have been idle.
constexpr double sampleUs = 400;     ///< What a sample takes at least, and ...
constexpr double runsPerSample = 2;  ///< ... runs of long kernels in one.
constexpr double leastUs = 1e-3;     ///< A difference of two times may be less, by noise.
constexpr double longRunUs = 5e4;    ///< Kernels that need no warm-up: the visit before was enough.
constexpr double leastNoise = 0.002; ///< Of a visit: what four turns show may be less by chance.

double secondsUntil(Finals::Clock::time_point end) {
  return std::chrono::duration<double>(end - Finals::Clock::now()).count();
}

/// Seconds that a turn of one run a visit takes at least.
template <class Field> double turnSeconds(const Field &field) {
  double us = 0;
  for (const auto &finalist : field)
    us += finalist.trial.medianUs();
  return us * 1e-6;
}

double meanOf(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Standard deviation.
double noiseOf(const std::vector<double> &values) {
  if (values.size() < 2)
    return 0;
  double squares = 0;
  for (double value : values)
    squares += std::pow(value - meanOf(values), 2);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::vector<double> minus(std::vector<double> a, const std::vector<double> &b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::minus());
  return a;
}

} // namespace

Result<Finals::Outcome> Finals::play(std::vector<Trial> trials, const Reject &reject) {
  std::vector<Finalist> field;
  for (Trial &trial : trials)
    field.push_back({std::move(trial), {}});
  Outcome outcome;
  isWarm = false;
  for (int round = 0; round < rounds && !field.empty(); ++round) {
    const int turns = firstTurns << std::max(round - 1, 0);
    if (turns * turnSeconds(field) > secondsUntil(end))
      break;
    if (Result<void> played = playRound(field, turns, reject); !played)
      return played.error();
    const std::vector<bool> isUndecided = undecidedOf(standingsOf(field));
    std::vector<Finalist> undecided;
    for (std::size_t i = 0; i < field.size(); ++i)
      if (isUndecided[i])
        undecided.push_back(std::move(field[i]));
      else
        outcome.others.push_back(std::move(field[i].trial));
    field = std::move(undecided);
    if (field.size() == 1)
      break;
  }
  if (field.empty())
    return outcome;
  const std::size_t winner = winnerOf(standingsOf(field));
  for (std::size_t i = 0; i < field.size(); ++i)
    if (i == winner)
      outcome.winner = std::move(field[i].trial);
    else
      outcome.others.push_back(std::move(field[i].trial));
  return outcome;
}

Result<void> Finals::playRound(std::vector<Finalist> &field, int turns, const Reject &reject) {
  const std::size_t visits = static_cast<std::size_t>(turns) * field.size();
  std::vector<std::optional<Failure>> failures(field.size());
  for (std::size_t visit = 0; visit < visits; ++visit) {
    const std::size_t turn = visit / field.size(), place = visit % field.size();
    const std::size_t i = turn % 2 == 0 ? place : field.size() - 1 - place;
    if (failures[i])
      continue;
    Trial &trial = field[i].trial;
    runtime::MeasureOptions options;
    const double samples = visitUs / std::max(sampleUs, runsPerSample * trial.medianUs());
    options.repetitions = std::max(static_cast<int>(samples), 1);
    options.warmupMs = std::exchange(isWarm, true) ? warmupMs : firstWarmupMs;
    options.maxSeconds = std::max(secondsUntil(end), 0.0) / static_cast<double>(visits - visit);
    if (trial.medianUs() > longRunUs)
      options.warmupMs = 0;
    MaybeFailure failure = runner.measure(trial, options, field[i].visits.emplace_back());
    if (!failure)
      return failure.error();
    failures[i] = std::move(*failure);
  }
  std::vector<Finalist> whole;
  for (std::size_t i = 0; i < field.size(); ++i)
    if (failures[i])
      reject(std::move(field[i].trial), *failures[i]);
    else
      whole.push_back(std::move(field[i]));
  field = std::move(whole);
  summariseVisits(field);
  return {};
}

/// Times at the clocks of all turns together. All in the field were visited in every turn.
void Finals::summariseVisits(std::vector<Finalist> &field) {
  if (field.empty())
    return;
  std::vector<double> turnLevels(field.front().visits.size()); // Logarithms.
  for (const Finalist &finalist : field)
    for (std::size_t turn = 0; turn < turnLevels.size(); ++turn)
      turnLevels[turn] +=
          std::log(std::max(median(finalist.visits[turn]), leastUs)) / static_cast<double>(field.size());
  const double level = meanOf(turnLevels);
  for (Finalist &finalist : field) {
    std::vector<double> times;
    for (std::size_t turn = 0; turn < turnLevels.size(); ++turn)
      for (double us : finalist.visits[turn])
        times.push_back(us * std::exp(level - turnLevels[turn]));
    finalist.trial.measurement.timing = summarise(std::move(times));
  }
}

/// Differences to the fastest, turn by turn; before any turn, of the times that they came with.
std::vector<Finals::Standing> Finals::standingsOf(const std::vector<Finalist> &field) {
  if (field.empty())
    return {};
  std::vector<std::vector<double>> levels; // Of each finalist, a logarithm for each turn.
  for (const Finalist &finalist : field) {
    std::vector<double> &own = levels.emplace_back();
    for (const std::vector<double> &visit : finalist.visits)
      own.push_back(std::log(std::max(median(visit), leastUs)));
    if (own.empty())
      own.push_back(std::log(std::max(finalist.trial.medianUs(), leastUs)));
  }
  const double turns = static_cast<double>(levels.front().size());
  std::vector<double> turnLevels(levels.front().size());
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
    const double error = 1.96 * 1.2533 * std::max(noiseOf(behind), leastNoise) / std::sqrt(turns);
    standings.push_back(&own == &*fastest ? Standing{} : Standing{median(behind), error});
  }
  return standings;
}

/// Whoever may still win, which is one when that is settled, and whoever may be the fastest, by whom they are judged.
std::vector<bool> Finals::undecidedOf(const std::vector<Standing> &standings) {
  std::vector<bool> mayWin(standings.size()), mayBeFastest(standings.size());
  bool isSettled = false;
  for (std::size_t i = 0; i < standings.size(); ++i) {
    const Standing &own = standings[i];
    mayWin[i] = !isSettled && own.behind - own.error <= tie;
    mayBeFastest[i] = own.behind - own.error <= 0;
    isSettled |= own.behind + own.error <= tie;
  }
  if (std::count(mayWin.begin(), mayWin.end(), true) > 1)
    std::transform(mayWin.begin(), mayWin.end(), mayBeFastest.begin(), mayWin.begin(), std::logical_or());
  return mayWin;
}

std::size_t Finals::winnerOf(const std::vector<Standing> &standings) {
  return static_cast<std::size_t>(
      std::find_if(standings.begin(), standings.end(), [](const Standing &own) { return own.behind <= tie; }) -
      standings.begin());
}

} // namespace kfuse::tuner
