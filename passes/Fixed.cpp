#include "passes/Fixed.h"

#include "passes/ComputedByReaders.h"

#include "ir/dialect/Kfuse.h"

using namespace mlir;

namespace kfuse::passes {

StringRef roleOf(func::FuncOp function, BlockArgument argument) {
  auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ir::roleAttrName);
  return role ? role.getValue() : "input";
}

llvm::DenseSet<Value> fixedValues(func::FuncOp function) {
  llvm::DenseSet<Value> fixed;
  Block &body = function.getBody().front();
  for (BlockArgument argument : body.getArguments())
    if (roleOf(function, argument) == "parameter")
      fixed.insert(argument);
  for (Operation &op : body.without_terminator())
    if (!isComputedByReaders(&op) &&
        llvm::all_of(op.getOperands(), [&](Value operand) { return fixed.contains(operand); }))
      fixed.insert(op.result_begin(), op.result_end());
  return fixed;
}

} // namespace kfuse::passes
