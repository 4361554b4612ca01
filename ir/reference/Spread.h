// How far an element may stray when every op errs a little: what a cancellation, or a comparison that may tip over,
// leaves of a tolerance.
#pragma once

#include "ir/reference/Evaluator.h"

#include <functional>
#include <span>
#include <vector>

namespace kfuse::reference {

/// The largest difference to the exact value that each of some elements (row-major offsets of one result) shows in
/// eight evaluations whose ops err at random within their types' tolerances.
using Spread = std::function<Result<std::vector<double>>(std::span<const std::int64_t> offsets)>;

/// Whether every element of the result follows from single elements of the block's arguments by elementwise functions
/// that are precise for any operands: nothing is summed, and no op cancels inside.
bool isElementwise(mlir::Block &block, unsigned result);

/// The spread of an elementwise result.
Result<std::vector<double>> spreadAt(mlir::Block &block, std::span<const HostTensor> arguments, unsigned result,
                                     std::span<const std::int64_t> offsets);

/// The same as a function, which keeps references to its arguments; null of a result that is not elementwise.
Spread spreadOf(mlir::Block &block, std::span<const HostTensor> arguments, unsigned result);

} // namespace kfuse::reference
