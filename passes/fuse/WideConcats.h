// Concats of many pieces.
#pragma once

#include "mlir/IR/Block.h"

namespace kfuse::passes {

/// Joins many pieces in steps, of a few dozen pieces each. A kernel asks of each element from which piece it is, in
/// order, and a launch takes 4 KB of parameters, 512 pointers; joining 50,000 pieces so copies each element three
/// times.
void splitWideConcats(mlir::Block &block);

} // namespace kfuse::passes
