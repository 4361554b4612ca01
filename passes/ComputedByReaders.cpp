#include "passes/ComputedByReaders.h"

#include "ir/dialect/Kfuse.h"

using namespace mlir;

namespace kfuse::passes {

bool isComputedByReaders(Operation *op) {
  if (auto cast = dyn_cast<ir::CastOp>(op); cast && cast.getOperand().getDefiningOp())
    op = cast.getOperand().getDefiningOp();
  auto fusable = dyn_cast<ir::FusableOpInterface>(op);
  return fusable && fusable.isComputedByReaders();
}

} // namespace kfuse::passes
