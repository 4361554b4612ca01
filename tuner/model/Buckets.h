// Which lengths share a program: those of a bucket (runtime/Lengths.h), which is planned for its largest lengths.
#pragma once

#include "kfuse/compiler.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kfuse::tuner {

/// Sizes up to which programs are worth considering, ascending, the last is `high`: powers of two up to 64, then four
/// between one and the next, from 1024 on eight, so that a program of more computes at
/// most an eighth of its rows for nothing.
std::vector<std::int64_t> ladder(std::int64_t low, std::int64_t high);

/// How often each interval (previous rung, rung] of one dimension is run.
std::vector<double> weightsOf(std::span<const std::int64_t> rungs, std::int64_t low, std::size_t dim,
                              std::span<const LengthCount> histogram);

/// The interval in which the weights' median lies.
std::size_t medianOf(std::span<const double> weights);

/// The order in which programs of so many buckets are planned: `middle`, which decides how weights are prepared, then
/// from the largest on.
std::vector<std::size_t> planningOrder(std::size_t count, std::size_t middle);

/// The rungs left when neighbours are merged, into the higher one: those with which runs that are weighted so take
/// least time in the mean, as shares of a run's by a program of its own rung, where each program counts as
/// `worthKeeping`, and none takes 6 % more than by its own. `us(rung, top)` is the time of a run of the
/// lengths of one rung by the program of another, or of its own.
std::vector<std::int64_t> mergeRungs(std::span<const std::int64_t> rungs, std::span<const double> weights,
                                     double worthKeeping,
                                     const std::function<double(std::size_t rung, std::size_t top)> &us);

} // namespace kfuse::tuner
