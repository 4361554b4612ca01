// From a kfuse.fused op to what the kernel templates see.
#pragma once

#include "codegen/KernelTemplate.h"

#include "mlir/IR/Block.h"

namespace kfuse::codegen {

/// The region of a kfuse.fused body; the reason when it has no scalar form.
Result<Region> makeRegion(mlir::Block &body);

} // namespace kfuse::codegen
