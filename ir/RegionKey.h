// What planning knows regions by: equal for regions that cost the same.
#pragma once

#include "mlir/IR/Block.h"

#include <string>

namespace kfuse::ir {

/// The ops of a region with their attributes, types and wiring as bytes, without names, places in the model, the
/// number of the attention they belong to, and how far inside a tensor the slices lie that alone read it. Much faster
/// than MLIR's printer.
std::string regionKey(mlir::Block &body);

} // namespace kfuse::ir
