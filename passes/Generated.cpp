#include "passes/Generated.h"

#include "ir/dialect/Kfuse.h"
#include "passes/Lengths.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// A causal mask is about 6 ops deep in exporters' spelling; a load costs as much as some ten of them.
constexpr int mostOps = 12;

bool isGenerated(Value value, int &opsLeft) {
  if (isLengths(value))
    return true;
  auto op = value.getDefiningOp<FusableOpInterface>();
  if (!op || --opsLeft < 0)
    return false;
  if (auto constant = dyn_cast<ConstantOp>(*op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    return dense && dense.isSplat();
  }
  bool isCheap =
      op.getOpKind() == OpKind::Generator || op.getOpKind() == OpKind::Layout || op.getOpKind() == OpKind::Pointwise;
  return isCheap && llvm::all_of(op->getOperands(), [&](Value operand) { return isGenerated(operand, opsLeft); });
}

} // namespace

bool isGenerated(Value value) {
  int opsLeft = mostOps;
  return isGenerated(value, opsLeft);
}

} // namespace kfuse::passes
