#include "passes/fuse/Groups.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {

std::optional<OpKind> kindOf(Operation *op) {
  auto fusable = dyn_cast<FusableOpInterface>(op);
  return fusable ? std::make_optional(fusable.getOpKind()) : std::nullopt;
}

size_t sizeOf(ArrayRef<Operation *> ops) {
  constexpr unsigned fewOperands = 3;
  size_t size = 0;
  for (Operation *op : ops)
    size += std::max(op->getNumOperands(), fewOperands) - fewOperands + 1;
  return size;
}

bool hasKind(ArrayRef<Operation *> ops, std::optional<OpKind> kind) {
  return llvm::any_of(ops, [&](Operation *op) { return kindOf(op) == kind; });
}

Operation *mainOp(ArrayRef<Operation *> ops) {
  for (OpKind kind : {OpKind::Contraction, OpKind::RowReduction})
    for (Operation *op : ops)
      if (kindOf(op) == kind)
        return op;
  return ops.back();
}

SmallVector<Operation *> opsOf(const OpGraph &graph, ArrayRef<OpGraph::Vertex> groups) {
  SmallVector<Operation *> ops;
  for (OpGraph::Vertex group : groups)
    llvm::append_range(ops, graph.opsOf(group));
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ops;
}

} // namespace kfuse::passes
