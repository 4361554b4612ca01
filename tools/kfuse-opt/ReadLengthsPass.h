// passes/Lengths.h on text: what an importer gives it from files stands in one module.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace kfuse::tools {

/// --kfuse-read-lengths: @main becomes a graph of the lengths that a run gives. Its attribute `kfuse.lengths` has the
/// lowest and the largest of each, in turn; every other function is a probe, the same graph for another size of one of
/// them: `kfuse.probe = array<i64: LENGTH, SIZE>`. Probes are erased.
std::unique_ptr<mlir::Pass> createReadLengthsPass();

} // namespace kfuse::tools
