// From a body around kfuse.attention to what the kernel templates see.
#pragma once

#include "codegen/Region.h"
#include "kfuse/error.h"

#include "mlir/IR/Block.h"

namespace kfuse::codegen {

/// The region of a body that holds an attention. Besides it there may be what computes the queries, updates of the
/// states that keys and values are read from, and another order of its result; the reason where there is more.
Result<Region> makeAttentionRegion(mlir::Block &body);

} // namespace kfuse::codegen
