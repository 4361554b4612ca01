// What a fuzzer makes of a model that was accepted: plans and kernels for several targets, without compiling them.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace kfuse::test {

/// Plans the model for the CPU, sm_80 and sm_90a, and prints every kernel with its template's first config. Aborts,
/// with the message on stderr, where an error says nothing or is a bug of kfuse.
void planAndEmit(mlir::ModuleOp module);

} // namespace kfuse::test
