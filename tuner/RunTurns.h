// Whole programs on the same arguments, timed in turns.
#pragma once

#include "runtime/Program.h"
#include "tuner/Standings.h"
#include "tuner/Tuner.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

namespace kfuse::tuner {

/// A program among others with the same arguments and results.
struct Entrant {
  runtime::Program program;
  Turns turns{}; ///< Played so far.
  std::unique_ptr<runtime::TimedRuns> runs{};
};

/// Where programs are compared: A B C, C B A, ..., cold. Where code lies shifts a kernel's time (Finals), so for each
/// pair of turns a program is loaded anew.
class RunTurns {
public:
  using Clock = std::chrono::steady_clock;

  /// Of a turn. A card at its power limit takes some 50 ms to settle its clock for what runs.
  struct Visit {
    double warmupMs, sampledMs;
  };
  static constexpr Visit shortVisit{2, 6}, ownClockVisit{40, 40};

  RunTurns(const Workshop &shop, Visit visit)
      : shop(shop), length(visit), visitSeconds((visit.warmupMs + visit.sampledMs) * 1e-3) {}

  /// Makes room for the programs' arguments, with these contents (of one that repeats itself the first elements may
  /// do), and results.
  Result<void> place(const runtime::Program &program, const HostBuffers &contents);
  /// The first entrant that is up to `tie`, of a logarithm, behind the fastest. There is a second round for those whose
  /// place is open after the first, if it will end before the deadline.
  Result<std::size_t> compare(std::vector<Entrant> &field, double tie, Clock::time_point deadline);
  /// What a round of so many should take, by the one before.
  Clock::duration roundTime(std::size_t entrants) const;

private:
  Result<void *> allocate(std::size_t bytes);
  Result<void> playRound(std::vector<Entrant> &field, const std::vector<std::size_t> &playing);
  Result<void> visit(Entrant &entrant);

  const Workshop &shop;
  const Visit length;
  double visitSeconds;
  bool isWarm = false; ///< The device, from a visit before.
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> memory;
  std::vector<void *> arguments, results;
};

} // namespace kfuse::tuner
