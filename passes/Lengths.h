// Graphs for lengths that a run gives: one that was imported for the largest of them reads them when it runs.
#pragma once

#include "kfuse/error.h"
#include "passes/lengths/Axis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kfuse::passes {

/// A named dimension of a model: from `low` to `bound` in a run; `bound` is its size in the graph. Where both are equal
/// it is a size like any other.
struct Length {
  std::string name;
  std::int64_t low = 1;
  std::int64_t bound = 1;

  bool isFixed() const { return low == bound; }
};

/// The same graph as it is imported for another size of one dimension, all others at their bounds. What differs
/// between such graphs is what follows the dimension.
struct LengthProbe {
  unsigned dim = 0; ///< The number of the dimension.
  std::int64_t size = 1;
  mlir::func::FuncOp main;
};

/// Two sizes of a dimension with this bound that tell a size that grows evenly from others: 2 or more, since
/// dimensions of one element broadcast.
std::pair<std::int64_t, std::int64_t> probeSizes(std::int64_t bound);

/// Whether a value is what a graph reads its lengths from.
bool isLengths(mlir::Value value);

/// What was added to a graph that reads lengths.
struct LengthEdges {
  static constexpr const char *lengthsName = "kfuse.lengths";

  /// Whether the last argument of role "input" is `lengthsName`, an i64 of each length in order.
  bool readsLengths = false;
  /// Per result: whether it is the caller's memory as a state, the last ones among the arguments of role "state", in
  /// the order of the results.
  std::vector<bool> storedInPlace;
  /// Dimensions of each argument of role "input", and of each result, as it was.
  std::vector<Axes> inputs, results;
};

/// Makes `main`, a graph for the bounds, one for all lengths between `low` and `bound`:
///
/// - Inputs are read, and outputs written, as tensors of the lengths of the run, dense in the caller's memory: of what
///   lies behind them nothing is read or written. Inside, a shorter tensor lies in one of the bounds, whose other
///   elements are those of the last row, or what is computed of them.
/// - Elements past a length never reach one that counts: what sums, compares or looks up along such a dimension gets
///   what does not matter there instead, 0 for sums, -inf for a softmax.
///
/// There are two probes for each length that is not fixed (probeSizes). BadModel names the op for which that cannot be
/// done, and why.
Result<LengthEdges> readLengths(mlir::func::FuncOp main, const std::vector<Length> &lengths,
                                const std::vector<LengthProbe> &probes);

} // namespace kfuse::passes
