// Whether a kernel ranks elements among themselves.
#pragma once

#include "ir/Scalar.h"

namespace kfuse::codegen {

/// Whether a reduction selects by comparisons of computed floats, as a ranking does. Such a kernel computes an element
/// more than once, and finds it again only if it is the same each time: products are not rounded together with sums,
/// and no division becomes a product with a reciprocal, since a compiler or a printer does so in one place and not in
/// the other. TopK of a * b + c found no first element, ArgMin of f(x / 1.4) neither.
bool ranksComputed(const ir::ScalarGraph &graph);

} // namespace kfuse::codegen
