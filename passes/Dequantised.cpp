#include "passes/Dequantised.h"

#include "ir/dialect/Kfuse.h"

using namespace mlir;

namespace kfuse::passes {

bool dequantises(Operation *op) {
  auto cast = dyn_cast<ir::CastOp>(op);
  return isa<ir::DequantizeOp>(op) || (cast && cast.getOperand().getDefiningOp<ir::DequantizeOp>());
}

} // namespace kfuse::passes
