// Values that need no memory: a few instructions compute them where they are used.
#pragma once

#include "mlir/IR/Value.h"

namespace kfuse::passes {

/// Whether a value is made of generators (splat constants, indices, the lengths of a run) by a few elementwise and
/// layout ops: a causal mask, position ids. Cheaper to compute again than to store and load.
bool isGenerated(mlir::Value value);

} // namespace kfuse::passes
