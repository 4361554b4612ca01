#include "runtime/cpu/Lowering.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace kfuse::runtime::cpu {
namespace {

/// A scalar function: private, with one block and a result.
bool isScalarFunction(func::FuncOp function) {
  return function.isPrivate() && function.getNumResults() == 1 && llvm::hasSingleElement(function.getBody());
}

void inlineCall(func::CallOp call, func::FuncOp callee) {
  OpBuilder builder(call);
  Block &body = callee.getBody().front();
  IRMapping mapping;
  mapping.map(body.getArguments(), call.getOperands());
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  call.replaceAllUsesWith(ValueRange{mapping.lookupOrDefault(body.getTerminator()->getOperand(0))});
  call.erase();
}

} // namespace

void inlineScalarFunctions(ModuleOp module) {
  // A function calls only functions before it, so that one walk in order leaves no call.
  SmallVector<func::FuncOp> inlined;
  for (auto function : module.getOps<func::FuncOp>()) {
    function.walk([&](func::CallOp call) {
      if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()); callee && isScalarFunction(callee))
        inlineCall(call, callee);
    });
    if (isScalarFunction(function))
      inlined.push_back(function);
  }
  for (func::FuncOp function : inlined)
    function.erase();
}

LogicalResult vectorizeTiles(ModuleOp module) {
  SmallVector<linalg::LinalgOp> tiles;
  module.walk([&](linalg::LinalgOp op) { tiles.push_back(op); });
  IRRewriter rewriter(module.getContext());
  for (linalg::LinalgOp op : tiles) {
    rewriter.setInsertionPoint(op);
    if (succeeded(linalg::vectorize(rewriter, op)))
      continue;
    if (failed(linalg::linalgOpToLoops(rewriter, op)))
      return op->emitOpError("neither vectorises nor becomes loops");
    rewriter.eraseOp(op);
  }
  return success();
}

} // namespace kfuse::runtime::cpu
