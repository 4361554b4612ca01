#include "tuner/search/InterleavedRuns.h"

#include "tuner/check/GuardedBuffer.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kfuse::tuner {
namespace {

constexpr int rounds = 2;
constexpr int turnsOfRound = 4;
constexpr int mostSamples = 1000;      ///< A visit takes no more; its time ends it.
constexpr double patienceSeconds = 60; ///< The limit of a run, whose kernels have all passed their checks in time.

double secondsSince(InterleavedRuns::Clock::time_point start) {
  return std::chrono::duration<double>(InterleavedRuns::Clock::now() - start).count();
}

} // namespace

Result<void> InterleavedRuns::prepare(const runtime::Program &program, const MakeArgument &makeArgument) {
  DeviceLock quiet = context.forMeasuring();
  context.device->limitRuns(patienceSeconds);
  if (Result<void> placed = place(program, makeArgument); !placed)
    return placed;
  Entrant entrant{program};
  if (Result<void> warm = visit(entrant, ownClockVisit.warmupMs); !warm)
    return warm;
  const Clock::time_point start = Clock::now();
  Result<void> visited = visit(entrant, length.warmupMs);
  visitSeconds = secondsSince(start);
  return visited;
}

Result<void> InterleavedRuns::place(const runtime::Program &program, const MakeArgument &makeArgument) {
  for (std::size_t i = 0; i < program.arguments.size(); ++i) {
    const std::size_t bytes = program.arguments[i].bytes();
    Result<void *> argument = allocate(bytes);
    if (!argument)
      return argument.error();
    if (Result<void> uploaded = uploadRepeated(*context.device, *argument, bytes, makeArgument(i)); !uploaded)
      return uploaded;
    arguments.push_back(*argument);
  }
  for (std::size_t i = 0; i < program.results.size(); ++i) {
    const bool isState = program.resultState[i] >= 0; // It is that argument's memory then.
    Result<void *> result = isState ? nullptr : allocate(program.results[i].bytes());
    if (!result)
      return result.error();
    results.push_back(*result);
  }
  return {};
}

Result<void *> InterleavedRuns::allocate(std::size_t bytes) {
  Result<std::unique_ptr<runtime::DeviceBuffer>> buffer = context.device->allocate(bytes);
  if (!buffer)
    return buffer.error();
  return memory.emplace_back(std::move(*buffer))->data();
}

InterleavedRuns::Clock::duration InterleavedRuns::roundTime(std::size_t entrants) const {
  const std::chrono::duration<double> time(turnsOfRound * visitSeconds * static_cast<double>(entrants));
  return std::chrono::duration_cast<Clock::duration>(time);
}

Result<std::size_t> InterleavedRuns::compare(std::vector<Entrant> &field, Clock::time_point deadline) {
  DeviceLock quiet = context.forMeasuring();
  std::vector<std::size_t> playing(field.size());
  std::iota(playing.begin(), playing.end(), 0);
  for (int round = 1;; ++round) {
    if (Result<void> played = playRound(field, playing); !played)
      return played.error();
    std::vector<Turns> turns;
    for (std::size_t entrant : playing)
      turns.push_back(field[entrant].turns);
    const std::vector<Standing> standings = standingsOf(turns);
    const std::vector<bool> isOpen = undecidedOf(standings, length.tie);
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < playing.size(); ++i)
      if (isOpen[i])
        open.push_back(playing[i]);
    if (open.size() < 2 || round == rounds || Clock::now() + roundTime(open.size()) > deadline)
      return playing[winnerOf(standings, length.tie)];
    playing = std::move(open);
  }
}

Result<void> InterleavedRuns::playRound(std::vector<Entrant> &field, const std::vector<std::size_t> &playing) {
  const Clock::time_point start = Clock::now();
  for (int turn = 0; turn < turnsOfRound; ++turn)
    for (std::size_t place = 0; place < playing.size(); ++place) {
      Entrant &entrant = field[playing[turn % 2 == 0 ? place : playing.size() - 1 - place]];
      if (Result<void> visited = visit(entrant, length.warmupMs); !visited)
        return visited;
    }
  visitSeconds = secondsSince(start) / static_cast<double>(turnsOfRound * playing.size());
  return {};
}

/// What was loaded before is still there while it is loaded anew, or it would lie in the same place.
Result<void> InterleavedRuns::visit(Entrant &entrant, double warmupMs) {
  if (context.isCancelled())
    return Error{ErrorCode::Cancelled, "tuning was cancelled in the whole run"};
  if (entrant.turns.size() % 2 == 0) {
    Result<std::unique_ptr<runtime::TimedRuns>> loaded =
        context.device->prepareProgramRuns(entrant.program, arguments, results);
    if (!loaded)
      return loaded.error();
    entrant.runs = std::move(*loaded);
  }
  Result<std::vector<double>> times = entrant.runs->measure(
      {.repetitions = mostSamples, .warmupMs = warmupMs, .maxSeconds = length.sampledMs * 1e-3, .cold = true});
  if (!times)
    return times.error();
  entrant.turns.push_back(median(std::move(*times)));
  return {};
}

} // namespace kfuse::tuner
