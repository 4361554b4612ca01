// Whole programs on the same arguments, timed interleaved.
#pragma once

#include "runtime/Program.h"
#include "tuner/search/Standings.h"
#include "tuner/search/Tuner.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace kfuse::tuner {

/// A program among others with the same arguments and results.
struct Entrant {
  runtime::Program program;
  Turns turns{}; ///< Its medians so far.
  std::unique_ptr<runtime::TimedRuns> runs{};
};

/// Compares programs interleaved A B C, C B A, ..., cold. Where code lies in memory shifts a kernel's time (Finals), so
/// a program is loaded anew for each pair of turns.
class InterleavedRuns {
public:
  using Clock = std::chrono::steady_clock;

  /// How long a visit takes, and by how much (as a logarithm) the preferred entrant may be behind the fastest. Runs
  /// bound by the memory of a card repeat within 0.1 %. At its power limit a card takes some 50 ms to come to its
  /// clock, and two processes find up to 1 % between equal runs.
  struct Visit {
    double warmupMs, sampledMs, tie;
  };
  static constexpr Visit shortVisit{2, 6, 0.002}, ownClockVisit{40, 40, 0.004};

  InterleavedRuns(const TuningContext &context, Visit visit) : context(context), length(visit) {}

  /// Contents of an argument; if they repeat themselves, the first elements may do.
  using MakeArgument = std::function<std::vector<std::byte>(std::size_t argument)>;
  /// Makes room for the programs' arguments and results, and warms up the device, which tells how long a visit takes.
  Result<void> prepare(const runtime::Program &program, const MakeArgument &makeArgument);
  /// The first entrant that is in a tie with the fastest. There is a second round for those whose place is open after
  /// the first, if it will end before the deadline. Errors: Cancelled, and whatever keeps a run from being timed.
  Result<std::size_t> compare(std::vector<Entrant> &field, Clock::time_point deadline);
  /// What a round of so many should take, by the one before.
  Clock::duration roundTime(std::size_t entrants) const;

private:
  Result<void> place(const runtime::Program &program, const MakeArgument &makeArgument);
  Result<void *> allocate(std::size_t bytes);
  Result<void> playRound(std::vector<Entrant> &field, const std::vector<std::size_t> &playing);
  Result<void> visit(Entrant &entrant, double warmupMs);

  const TuningContext &context;
  const Visit length;
  double visitSeconds = 0; ///< As in the last round, or in the warm-up.
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> memory;
  std::vector<void *> arguments, results;
};

} // namespace kfuse::tuner
