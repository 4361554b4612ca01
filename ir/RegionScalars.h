// From a fused region to its scalar form.
#pragma once

#include "ir/Scalar.h"
#include "kfuse/error.h"

#include "mlir/IR/Block.h"

namespace kfuse::ir {

/// The scalar form of a region (the body of kfuse.fused), or the reason why it has none.
///
/// The iteration space is that of the region's anchor: its first contraction [batch..., M, N, K] (others must be of the
/// same sizes, and may not read each other), else its first row reduction [rows..., columns], else the elements of its
/// first result. Rows beside a contraction lie along its columns, or along K where the contraction reads what they
/// become. Every result must be placed in it one to one: through elementwise ops, transposes and reshapes. All else is
/// read backwards from the results, index by index, down to loads of the region's inputs.
Result<ScalarGraph> scalariseRegion(mlir::Block &body);

/// The same over the elements of its first result, of a state update what it writes, whatever it is computed by but a
/// contraction: row reductions run along the last dimension.
Result<ScalarGraph> scalariseByResult(mlir::Block &body);

} // namespace kfuse::ir
