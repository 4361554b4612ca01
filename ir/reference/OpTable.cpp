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

LazyTensor &makeLazy(const ReferenceOp &row, mlir::Operation *op, Operands operands, LazyArena &arena) {
  LazyTensor &result = row.make(op, operands, arena);
  result.rounds = arena.mode == Mode::RoundEachOp;
  return result;
}

} // namespace kfuse::reference
