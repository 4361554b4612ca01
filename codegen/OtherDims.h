// The same computation over other dimensions.
#pragma once

#include "ir/Scalar.h"

namespace kfuse::codegen {

/// `graph` over dimensions of these extents, of which `dims` makes the old ones: [b * 4 + h, ...]. The last is what it
/// was, and the number of points is the same. linearised() simplifies the indices that come of it.
ir::ScalarGraph overOtherDims(ir::ScalarGraph graph, llvm::ArrayRef<int64_t> extents,
                              llvm::ArrayRef<mlir::AffineExpr> dims);

} // namespace kfuse::codegen
