#include "tuner/search/Finals.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr double hopeless = 0.08; ///< A lag, as a logarithm: far more than the first look and a visit err by.
constexpr double warmupMs = 2;    ///< Before each visit.
constexpr double visitUs = 2000;  ///< The samples of a visit take about so long.
constexpr double clockMs = 60;    ///< The time in which a card comes to its clock: the very first visit's warm-up, and
                                  ///< every visit's for kernels measured at their own clock.
constexpr double briefClockMs = 15; ///< The same where there is one turn.
constexpr double sampleUs = 400;    ///< What a sample takes at least.
constexpr double longRunUs = 1e3;   ///< Longer kernels need no warm-up after the first visit.
constexpr double longTurnUs =
    1e4; ///< Longer kernels are owed two turns, not four: one turn of eight finalists takes 0.1 s or more.

double secondsUntil(Finals::Clock::time_point end) {
  return std::chrono::duration<double>(end - Finals::Clock::now()).count();
}

/// The turns of a round: 1, 3, 4, 8, 16 and so on.
int turnsOf(int round) { return round == 0 ? 1 : round == 1 ? 3 : 4 << (round - 2); }

Finals::Clock::duration toClock(double seconds) {
  return std::chrono::duration_cast<Finals::Clock::duration>(std::chrono::duration<double>(seconds));
}

double meanOf(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

} // namespace

Finals::Finals(TrialRunner &runner, const Budget &budget, Clock::time_point start)
    : runner(runner), rounds(budget.rounds), tie(budget.tie), runsPerSample(budget.runsPerSample),
      singleRunUs(budget.singleRunUs), movedUs(budget.movedUs), ownClockUs(budget.ownClockUs),
      wantedEnd(start + toClock(std::min(budget.wantedSeconds, budget.seconds))), end(start + toClock(budget.seconds)) {
}

double Finals::warmupMsOf(const Trial &trial, bool isWarm) const {
  if (!isWarm && rounds == 0) // One turn tells what is percents apart, which the clock of a card just idle is not.
    return briefClockMs;
  return !isWarm || hasOwnClock(trial) ? clockMs : trial.medianUs() > longRunUs ? 0 : warmupMs;
}
double Finals::sampledUsOf(const Trial &trial) const { return hasOwnClock(trial) ? clockMs * 1e3 : visitUs; }
double Finals::sampleUsOf(const Trial &trial) const {
  const double runs = trial.medianUs() > singleRunUs ? 1 : runsPerSample;
  return std::max(sampleUs, runs * trial.medianUs());
}
/// The least that a visit takes, by the samples of the first look: on the CPU what evicts the cache takes far longer
/// than most runs.
double Finals::visitSecondsOf(const Trial &trial) const {
  return std::max(warmupMsOf(trial, true) * 1e-3 + std::max(sampledUsOf(trial), sampleUsOf(trial)) * 1e-6,
                  trial.sampleSeconds);
}

Result<Finals::Outcome> Finals::play(std::vector<Trial> trials, const Reject &reject) {
  std::vector<Finalist> field, left; // Who plays on, and who left.
  for (Trial &trial : trials) {
    const double seconds = visitSecondsOf(trial);
    field.push_back({std::move(trial), seconds, {}});
  }
  isWarm = false;
  for (int round = 0; round <= rounds && !field.empty() && hasTimeForTurn(field, round); ++round) {
    if (Result<void> played = playRound(field, round, reject); !played)
      return played.error();
    const std::vector<bool> plays = round == 0 ? hopefulOf(field) : undecidedOf(standingsOf(field), tie);
    std::vector<Finalist> undecided;
    for (std::size_t i = 0; i < field.size(); ++i)
      (plays[i] ? undecided : left).push_back(std::move(field[i]));
    field = std::move(undecided);
    if (field.size() == 1 && round > 0)
      break;
  }
  std::optional<std::size_t> winner; // None yet when all that were left failed.
  if (!field.empty())
    winner = winnerOf(standingsOf(field), tie);
  std::move(left.begin(), left.end(), std::back_inserter(field));
  summariseVisits(field);
  if (!winner && !field.empty()) {
    auto leads = [](const Finalist &a, const Finalist &b) { return isFaster(a.trial, b.trial); };
    winner = static_cast<std::size_t>(std::min_element(field.begin(), field.end(), leads) - field.begin());
  }
  Outcome outcome;
  for (std::size_t i = 0; i < field.size(); ++i)
    if (i == winner)
      outcome.winner = std::move(field[i].trial);
    else
      outcome.others.push_back(std::move(field[i].trial));
  return outcome;
}

/// Plays the turns that fit into the time; the caller has made sure of one.
Result<void> Finals::playRound(std::vector<Finalist> &field, int round, const Reject &reject) {
  const int turns = turnsOf(round), played = static_cast<int>(field.front().visits.size());
  std::vector<std::optional<Failure>> failures(field.size());
  for (int turn = 0; turn == 0 || (turn < turns && hasTimeForTurn(field, round)); ++turn)
    for (std::size_t place = 0; place < field.size(); ++place) {
      const std::size_t i = (played + turn) % 2 == 0 ? place : field.size() - 1 - place;
      if (failures[i])
        continue;
      MaybeFailure failure = visit(field[i], secondsUntil(end) / static_cast<double>(field.size() - place));
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
  return {};
}

/// Samples for about `seconds` at most, and one at least.
MaybeFailure Finals::visit(Finalist &finalist, double seconds) {
  const bool wasWarm = std::exchange(isWarm, true);
  runtime::MeasureOptions options;
  options.repetitions = std::max(static_cast<int>(sampledUsOf(finalist.trial) / sampleUsOf(finalist.trial)), 1);
  options.warmupMs = warmupMsOf(finalist.trial, wasWarm);
  options.maxSeconds = std::max(seconds, 0.0);
  const Clock::time_point begin = Clock::now();
  MaybeFailure failure = std::optional<Failure>();
  if (isDueElsewhere(finalist))
    failure = runner.loadElsewhere(finalist.trial);
  if (failure && !*failure)
    failure = runner.measure(finalist.trial, options, finalist.visits.emplace_back());
  const Clock::duration repair = runner.takeRepairTime();
  wantedEnd += repair;
  end += repair;
  if (wasWarm && failure && !*failure)
    finalist.visitSeconds = std::chrono::duration<double>(Clock::now() - begin - repair).count();
  return failure;
}

/// True for each pair of turns but the first.
bool Finals::isDueElsewhere(const Finalist &finalist) const {
  const std::size_t turn = finalist.visits.size();
  return turn > 0 && turn % 2 == 0 && finalist.trial.medianUs() < movedUs;
}

/// Judges by what the visits before took: beside warm-up and samples, copies of the buffers and graphs are made.
bool Finals::hasTimeForTurn(const std::vector<Finalist> &field, int round) const {
  double seconds = isWarm ? 0 : clockMs * 1e-3;
  for (const Finalist &finalist : field)
    seconds += finalist.visitSeconds;
  const bool isLong = field.front().trial.medianUs() > longTurnUs;
  const bool isOwed = round == 0 || (round == 1 && (!isLong || field.front().visits.size() < 2));
  return seconds <= secondsUntil(isOwed ? end : wantedEnd);
}

/// Brings all times, also of those who left early, to the mean clock of all turns. Finalists that were in every turn
/// tell what a turn's clock was.
void Finals::summariseVisits(std::vector<Finalist> &all) {
  std::size_t turns = 0;
  for (const Finalist &finalist : all)
    turns = std::max(turns, finalist.visits.size());
  std::vector<double> turnLevels(turns); // Sums of logarithms, a turn each.
  std::size_t stayed = 0;                // Finalists that were in every turn.
  for (const Finalist &finalist : all)
    if (finalist.visits.size() == turns) {
      ++stayed;
      for (std::size_t turn = 0; turn < turns; ++turn)
        turnLevels[turn] += std::log(std::max(median(finalist.visits[turn]), leastUs));
    }
  if (turns == 0)
    return;
  const double level = meanOf(turnLevels);
  for (Finalist &finalist : all) {
    std::vector<double> times;
    for (std::size_t turn = 0; turn < finalist.visits.size(); ++turn)
      for (double us : finalist.visits[turn])
        times.push_back(us * std::exp((level - turnLevels[turn]) / static_cast<double>(stayed)));
    finalist.trial.measurement.timing = summarise(std::move(times));
  }
}

/// Compares the medians of their visits, turn by turn; before any turn, the times that they came with.
std::vector<Standing> Finals::standingsOf(const std::vector<Finalist> &field) {
  std::vector<Turns> turns;
  for (const Finalist &finalist : field) {
    Turns &own = turns.emplace_back();
    for (const std::vector<double> &visit : finalist.visits)
      own.push_back(median(visit));
    if (own.empty())
      own.push_back(finalist.trial.medianUs());
  }
  return tuner::standingsOf(turns);
}

/// Whoever was near the fastest when it was first looked at, or is now.
std::vector<bool> Finals::hopefulOf(const std::vector<Finalist> &field) {
  std::vector<double> before, now;
  for (const Finalist &finalist : field) {
    before.push_back(std::log(std::max(finalist.trial.medianUs(), leastUs)));
    now.push_back(std::log(std::max(median(finalist.visits.back()), leastUs)));
  }
  std::vector<bool> isHopeful(field.size());
  for (std::size_t i = 0; i < field.size(); ++i)
    isHopeful[i] = before[i] <= *std::min_element(before.begin(), before.end()) + hopeless ||
                   now[i] <= *std::min_element(now.begin(), now.end()) + hopeless;
  return isHopeful;
}

} // namespace kfuse::tuner
