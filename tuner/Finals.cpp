#include "tuner/Finals.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr std::size_t turns = 4;     ///< Of a round, in each of which everybody is visited once.
constexpr double warmupMs = 5;       ///< Of each visit: finalists are compared at the clocks of a card that works on.
constexpr double firstWarmupMs = 60; ///< Of the very first, before which the card may have been idle.
constexpr double visitUs = 3000;     ///< Of samples in a visit of the first round, about; later ones take twice ...
constexpr double sampleUs = 400;     ///< ... what a sample takes at least, and ...
constexpr double runsPerSample = 2;  ///< ... runs of long kernels in one.
constexpr double leastUs = 1e-3;     ///< A difference of two times may be less, by noise.
constexpr double longRunUs = 5e4;    ///< Kernels that need no warm-up: the visit before was enough.

double secondsUntil(Finals::Clock::time_point end) {
  return std::chrono::duration<double>(end - Finals::Clock::now()).count();
}

/// Seconds that a round of one sample a visit takes at least.
template <class Field> double roundSeconds(const Field &field) {
  double us = 0;
  for (const auto &finalist : field)
    us += turns * finalist.trial.medianUs();
  return us * 1e-6;
}

} // namespace

bool Finals::areInOrder(const Finalist &a, const Finalist &b) { return isFaster(a.trial, b.trial); }

Result<Finals::Outcome> Finals::play(std::vector<Trial> trials, const Reject &reject) {
  std::vector<Finalist> field;
  for (Trial &trial : trials)
    field.push_back({std::move(trial), {}});
  Outcome outcome;
  isWarm = false;
  for (int round = 0; round < rounds && !field.empty(); ++round) {
    if ((round > 0 && field.size() == 1) || roundSeconds(field) > secondsUntil(end))
      break;
    if (Result<void> played = playRound(field, round, reject); !played)
      return played.error();
    if (field.empty())
      break;
    const Timing best = *std::min_element(field.begin(), field.end(), areInOrder)->trial.measurement.timing;
    auto slow = std::stable_partition(field.begin(), field.end(), [&](const Finalist &finalist) {
      const Timing &mine = *finalist.trial.measurement.timing;
      return !isSlower(mine, best) || isTie(best, mine);
    });
    for (auto finalist = slow; finalist != field.end(); ++finalist)
      outcome.dropped.push_back(std::move(finalist->trial));
    field.erase(slow, field.end());
  }
  for (Finalist &finalist : field)
    outcome.left.push_back(std::move(finalist.trial));
  std::sort(outcome.left.begin(), outcome.left.end(), isFaster);
  std::sort(outcome.dropped.begin(), outcome.dropped.end(), isFaster);
  return outcome;
}

Result<void> Finals::playRound(std::vector<Finalist> &field, int round, const Reject &reject) {
  const std::size_t visits = turns * field.size();
  std::vector<std::optional<Failure>> failures(field.size());
  for (std::size_t visit = 0; visit < visits; ++visit) {
    const std::size_t turn = visit / field.size(), place = visit % field.size();
    const std::size_t i = turn % 2 == 0 ? place : field.size() - 1 - place;
    if (failures[i])
      continue;
    Trial &trial = field[i].trial;
    runtime::MeasureOptions options;
    const double samples = visitUs * (1 << round) / std::max(sampleUs, runsPerSample * trial.medianUs());
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

/// All in the field were visited in every turn.
void Finals::summariseVisits(std::vector<Finalist> &field) {
  if (field.empty())
    return;
  std::vector<double> turnLevels(field.front().visits.size()); // Logarithms.
  for (const Finalist &finalist : field)
    for (std::size_t turn = 0; turn < turnLevels.size(); ++turn)
      turnLevels[turn] +=
          std::log(std::max(summarise(finalist.visits[turn]).medianUs, leastUs)) / static_cast<double>(field.size());
  const double level =
      std::accumulate(turnLevels.begin(), turnLevels.end(), 0.0) / static_cast<double>(turnLevels.size());
  for (Finalist &finalist : field) {
    std::vector<double> times;
    for (std::size_t turn = 0; turn < turnLevels.size(); ++turn)
      for (double us : finalist.visits[turn])
        times.push_back(us * std::exp(level - turnLevels[turn]));
    finalist.trial.measurement.timing = summarise(std::move(times));
  }
}

} // namespace kfuse::tuner
