// Kernels that are nearly as fast as each other alone, chosen by what a run of their whole model takes.
#pragma once

#include "runtime/Program.h"
#include "tuner/search/InterleavedRuns.h"
#include "tuner/search/Tuner.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace kfuse::tuner {

/// A model as it is run, for any choice of its kernels.
struct WholeRun {
  /// The program with these kernels, one per task, in their order.
  std::function<Result<runtime::Program>(std::span<const TunedKernel> kernels)> build;
  InterleavedRuns::MakeArgument makeArgument; ///< Makes an argument of that program.
};

/// A search times a kernel behind copies of itself, all candidates at one clock. In its model it starts behind another
/// kernel, may fetch its weights while that one ends, and the card's clock follows from what the whole run draws: what
/// is 1 to 3 % faster there need not have won its search. So each new kernel (TunedKernel::isNew) meets those that came
/// near to it (runnersUpOf) again, in its place in a run of the model, which is timed as `kfuse bench block` times it,
/// cold: kernels with the largest share of the run first, each beside the winners of those before it. In the end the
/// run with all winners meets the one that everything began with, and only if that is behind by more than a tie
/// (InterleavedRuns) do `kernels` and the store change.
///
/// For about `seconds`; runners-up that are not compiled in half of that stay out. Nothing is done, nor told, where a
/// run has a single launch, or where nobody came near.
/// Errors, with which nothing has changed: Cancelled, and whatever keeps a run from being timed.
Result<std::optional<EndToEndReport>> chooseEndToEnd(const TuningContext &context, std::span<const TuningTask> tasks,
                                                     std::vector<TunedKernel> &kernels, const WholeRun &run,
                                                     double seconds);

} // namespace kfuse::tuner
