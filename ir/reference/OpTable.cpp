#include "ir/reference/OpTable.h"

#include "ir/dialect/Kfuse.h"

namespace kfuse::reference {

const ReferenceOp *findReferenceOp(llvm::StringRef opName) {
  if (!opName.consume_front("kfuse."))
    return nullptr;
  for (llvm::ArrayRef<ReferenceOp> rows : {pointwiseOps(), layoutOps(), rowOps(), matmulOps()})
    for (const ReferenceOp &row : rows)
      if (row.name == opName)
        return &row;
  return nullptr;
}

static bool computes(mlir::Operation *op) {
  return mlir::cast<ir::FusableOpInterface>(op).getOpKind() == ir::OpKind::Pointwise;
}

LazyTensor &makeLazy(const ReferenceOp &row, mlir::Operation *op, Operands operands, LazyArena &arena) {
  LazyTensor &result = row.make(op, operands, arena);
  result.rounds = arena.mode == Mode::RoundEachOp;
  if (arena.mode == Mode::Shaken && computes(op) && isFloat(result.type))
    result.noise = wordAt(arena.seed, arena.size()) | 1;
  return result;
}

} // namespace kfuse::reference
