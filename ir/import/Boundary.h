// The edge of a model: @main's arguments and results, their roles and names.
#pragma once

#include "ir/import/Model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kfuse::ir {

/// Gives arguments and results without a role or name the role "input" and the names "arg0", "result0", ...,
/// then checks that roles are known and names unique.
Result<void> completeBoundary(mlir::func::FuncOp main);

/// Makes inputs that a pattern names parameters. Usage for a pattern that is no glob or names nothing.
Result<void> applyParameterPatterns(mlir::func::FuncOp main, const std::vector<std::string> &patterns);

/// Usage for a shape that names no argument, or differs from its argument's.
Result<void> checkShapes(mlir::func::FuncOp main, const std::map<std::string, Shape> &shapes);

} // namespace kfuse::ir
