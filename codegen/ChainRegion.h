// From a body of kfuse.fused ops to what the kernel templates see.
#pragma once

#include "codegen/Region.h"
#include "kfuse/error.h"

#include "mlir/IR/Block.h"

namespace kfuse::codegen {

/// The region of a body whose ops are kfuse.fused (layers) and views of their results; the reason when it is none.
Result<Region> makeChainRegion(mlir::Block &body);

} // namespace kfuse::codegen
