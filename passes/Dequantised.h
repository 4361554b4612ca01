// Weights of few bits as products read them.
#pragma once

#include "mlir/IR/Operation.h"

namespace kfuse::passes {

/// Whether `op` dequantises, or casts what another does: a checkpoint's scales of f16 in a model of bf16. It takes a
/// multiple of the memory of what it reads, and next to no time, so it is part of reading.
bool dequantises(mlir::Operation *op);

} // namespace kfuse::passes
