// What is computed where it is read, as weights of few bits are dequantised.
#pragma once

#include "mlir/IR/Operation.h"

namespace kfuse::passes {

/// Whether those who read the op's result compute it (FusableOpInterface), or the op casts what is computed so: a
/// checkpoint's weights with scales of f16 in a model of bf16.
bool isComputedByReaders(mlir::Operation *op);

} // namespace kfuse::passes
