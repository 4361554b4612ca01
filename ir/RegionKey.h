// A region's identity: equal for regions that are the same kernel.
#pragma once

#include "mlir/IR/Block.h"

#include <string>

namespace kfuse::ir {

/// The ops of a region with their attributes, types and wiring as bytes, without names, places in the model
/// and the number of the attention they belong to. Much faster than MLIR's printer.
std::string regionKey(mlir::Block &body);

} // namespace kfuse::ir
