#include "tuner/Finals.h"

#include <algorithm>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr std::size_t turns = 4;     ///< Of a round, in each of which everybody is visited once.
constexpr int firstSamples = 3;      ///< Of each visit in the first round.
constexpr double warmupMs = 5;       ///< Of each visit: finalists are compared at the clocks of a card that works on.
constexpr double firstWarmupMs = 60; ///< Of the very first, before which the card may have been idle.
constexpr double visitUs = 3000;     ///< Of samples in a visit of the first round: long runs need fewer.
constexpr int leastSamples = 1;
constexpr double longRunUs = 5e4; ///< Kernels that need no warm-up: the visit before was enough.

double secondsUntil(Finals::Clock::time_point end) {
  return std::chrono::duration<double>(end - Finals::Clock::now()).count();
}

/// Seconds that one round of `samples` a visit takes at least.
template <class Field> double roundSeconds(const Field &field, int samples) {
  double us = 0;
  for (const auto &finalist : field)
    us += turns * samples * finalist.trial.medianUs();
  return us * 1e-6;
}

} // namespace

Result<std::vector<Trial>> Finals::play(std::vector<Trial> trials, const Reject &reject) {
  std::vector<Finalist> field;
  for (Trial &trial : trials)
    field.push_back({std::move(trial), {}});
  int samples = firstSamples;
  isWarm = false;
  for (int round = 0; round < rounds && !field.empty(); ++round, samples *= 2) {
    if ((round > 0 && field.size() == 1) || roundSeconds(field, 1) > secondsUntil(end))
      break;
    if (Result<void> played = playRound(field, samples, reject); !played)
      return played.error();
    std::erase_if(field, [&](const Finalist &finalist) {
      return isSlower(*finalist.trial.measurement.timing, *field.front().trial.measurement.timing);
    });
  }
  std::vector<Trial> left;
  for (Finalist &finalist : field)
    left.push_back(std::move(finalist.trial));
  return left;
}

Result<void> Finals::playRound(std::vector<Finalist> &field, int samples, const Reject &reject) {
  const std::size_t visits = turns * field.size();
  std::vector<std::optional<Failure>> failures(field.size());
  for (std::size_t visit = 0; visit < visits; ++visit) {
    const std::size_t turn = visit / field.size(), place = visit % field.size();
    const std::size_t i = turn % 2 == 0 ? place : field.size() - 1 - place;
    if (failures[i])
      continue;
    Trial &trial = field[i].trial;
    runtime::MeasureOptions options;
    const double fitting = visitUs * samples / firstSamples / trial.medianUs();
    options.repetitions = static_cast<int>(std::clamp<double>(fitting, leastSamples, samples));
    options.warmupMs = std::exchange(isWarm, true) ? warmupMs : firstWarmupMs;
    options.maxSeconds = std::max(secondsUntil(end), 0.0) / static_cast<double>(visits - visit);
    if (trial.medianUs() > longRunUs)
      options.warmupMs = 0;
    MaybeFailure failure = runner.measure(trial, options, field[i].times);
    if (!failure)
      return failure.error();
    failures[i] = std::move(*failure);
  }
  std::vector<Finalist> whole;
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (failures[i]) {
      reject(std::move(field[i].trial), *failures[i]);
      continue;
    }
    field[i].trial.measurement.timing = summarise(field[i].times);
    whole.push_back(std::move(field[i]));
  }
  field = std::move(whole);
  std::sort(field.begin(), field.end(),
            [](const Finalist &a, const Finalist &b) { return isFaster(a.trial, b.trial); });
  return {};
}

} // namespace kfuse::tuner
