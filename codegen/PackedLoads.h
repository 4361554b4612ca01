// 4-bit integers in memory, two of which share a byte, as loads of bytes.
#pragma once

#include "ir/Scalar.h"

namespace kfuse::codegen {

/// `graph` with the bytes of its packed inputs as inputs, and each element as the half of a byte that it is: what
/// templates and targets print then knows no type below a byte.
ir::ScalarGraph withPackedLoads(const ir::ScalarGraph &graph);

} // namespace kfuse::codegen
