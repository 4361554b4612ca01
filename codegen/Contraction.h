// Whether products may be rounded together with the sums that they are part of.
#pragma once

#include "ir/Scalar.h"

namespace kfuse::codegen {

/// Whether a reduction selects by comparisons of computed floats, as a ranking of elements among themselves does. Such
/// a kernel computes an element more than once, and finds it again only if it is the same each time. A compiler that
/// fuses a product with a sum in one place and not in the other makes it another: TopK of a * b + c found no first
/// element.
bool ranksComputed(const ir::ScalarGraph &graph);

} // namespace kfuse::codegen
