// What ops that hold a region verify.
#include "ir/dialect/Kfuse.h"

using namespace mlir;

namespace kfuse::ir {
namespace {

LogicalResult verifyRegion(Operation *op, Block &body) {
  if (body.getArgumentTypes() != op->getOperandTypes())
    return op->emitOpError("has operands of types (")
           << op->getOperandTypes() << ") but block arguments of (" << body.getArgumentTypes() << ")";
  TypeRange yielded = body.getTerminator()->getOperandTypes();
  if (yielded != op->getResultTypes())
    return op->emitOpError("has results of types (") << op->getResultTypes() << ") but yields (" << yielded << ")";
  return success();
}

} // namespace

LogicalResult FusedOp::verify() { return verifyRegion(*this, getBody().front()); }
LogicalResult AttentionOp::verify() { return verifyRegion(*this, getBody().front()); }

} // namespace kfuse::ir
