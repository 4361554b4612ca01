// The evaluator's ops: one row for each op of the dialect.
#pragma once

#include "ir/reference/LazyTensor.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kfuse::reference {

using Operands = llvm::ArrayRef<LazyTensor *>;

/// How one op's result follows from its operands.
struct ReferenceOp {
  llvm::StringLiteral name; ///< Mnemonic: "softmax".
  LazyTensor &(*make)(mlir::Operation *op, Operands operands, LazyArena &arena);
  /// A faster way to all elements at once from whole operands, or null.
  std::vector<Number> (*whole)(mlir::Operation *op, Operands operands, Mode mode) = nullptr;
};

// The rows, by file.
llvm::ArrayRef<ReferenceOp> pointwiseOps();
llvm::ArrayRef<ReferenceOp> layoutOps();
llvm::ArrayRef<ReferenceOp> rowOps();
llvm::ArrayRef<ReferenceOp> matmulOps();

/// The row of an op's full name ("kfuse.softmax"), or null.
const ReferenceOp *findReferenceOp(llvm::StringRef opName);

/// The lazy result of an op that has a row.
LazyTensor &makeLazy(const ReferenceOp &row, mlir::Operation *op, Operands operands, LazyArena &arena);

} // namespace kfuse::reference
