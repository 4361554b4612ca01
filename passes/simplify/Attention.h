// Scaled dot product attention as one region, and back.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kfuse::passes {

/// Wraps q k^T [* scale] [+ mask] -> softmax [-> guard] -> product with v into kfuse.attention
/// wherever nothing between the two products is used elsewhere.
void recogniseAttention(mlir::func::FuncOp function);

} // namespace kfuse::passes
