// From a body whose ops fall apart to what the kernel templates see.
#pragma once

#include "codegen/Region.h"

#include "mlir/IR/Block.h"

#include <optional>

namespace kfuse::codegen {

/// The region of a body whose results come from ops that do not feed each other, each part with a scalar form of its
/// own; none where it has fewer than two such parts. What only moves or makes values is part of each that reads it.
std::optional<Region> makePartedRegion(mlir::Block &body);

} // namespace kfuse::codegen
