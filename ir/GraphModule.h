// A Graph's module, for the library's own use: MLIR stays out of the public headers.
#pragma once

#include "kfuse/graph.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace kfuse {

/// A verified module with one function @main. The context, which is not threaded, holds the kfuse and
/// func dialects; others may share it, so clone the module, or print it into another context.
struct Graph::Impl {
  std::shared_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace kfuse
