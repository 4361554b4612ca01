// From a body around kfuse.attention to what the kernel templates see.
#pragma once

#include "codegen/KernelTemplate.h"

#include "mlir/IR/Block.h"

namespace kfuse::codegen {

/// The region of a body that holds an attention. Besides it there may be what computes the queries, and updates of the
/// states that keys and values are read from; the reason where there is more.
Result<Region> makeAttentionRegion(mlir::Block &body);

} // namespace kfuse::codegen
