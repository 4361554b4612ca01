// How fusion speaks of ops to people.
#pragma once

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"

#include <string>

namespace kfuse::passes {

/// "matmul", or "matmul 'layers.0.q_proj'" where the model names the node.
inline std::string nameOf(mlir::Operation *op) {
  std::string name = op->getName().stripDialect().str();
  if (auto location = llvm::dyn_cast<mlir::NameLoc>(op->getLoc()))
    name += " '" + location.getName().str() + "'";
  return name;
}

} // namespace kfuse::passes
