#include "passes/products/WeightForms.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// The names of the parameters that `value` is made of, each once, in the order in which they are met.
void collectParameters(Value value, llvm::DenseSet<Value> &seen, std::string &names) {
  SmallVector<Value> open{value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (Operation *op = next.getDefiningOp()) {
      llvm::append_range(open, llvm::reverse(op->getOperands()));
      continue;
    }
    auto argument = cast<BlockArgument>(next);
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (auto name = function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttrName) : nullptr)
      names += " " + name.str();
  }
}

} // namespace

std::string WeightForms::keyOf(StringRef rewrite, ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> &fixed) {
  std::string key = rewrite.str();
  llvm::DenseSet<Value> seen;
  for (MatmulOp product : products)
    for (Value operand : product.getOperands())
      if (fixed.contains(operand))
        collectParameters(operand, seen, key);
  return key;
}

} // namespace kfuse::passes
