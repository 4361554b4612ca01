// How runners-up that were timed in the same turns stand to each other, and whether that is decided.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kfuse::tuner {

/// Microseconds of one runner-up: a median for each turn, of as many turns as all others.
using Turns = std::vector<double>;

/// Logarithms: how far behind the fastest, and half a 95 % confidence interval of that.
struct Standing {
  double behind = 0, error = 0;
};

/// What a time is never taken to be less than: noise may make a difference of two negative.
inline constexpr double leastUs = 1e-3;

/// Each runner-up's, in their order: the median of its differences from the fastest, turn by turn, so that what makes a
/// whole turn slow for all is not seen; with Student's t of as many turns, and never less noise than 0.2 % a turn.
std::vector<Standing> standingsOf(std::span<const Turns> runnersUp);

/// Whoever may still win, which is one when that is decided, and whoever may be the fastest, by whom they are judged.
/// Runners-up come in the order of preference; `tie` is by how much the winner may be behind the fastest.
std::vector<bool> undecidedOf(std::span<const Standing> standings, double tie);

/// The first that is within the tie.
std::size_t winnerOf(std::span<const Standing> standings, double tie);

} // namespace kfuse::tuner
