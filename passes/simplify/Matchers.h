// What the rewrite patterns ask of values: constants, rows, and operands in either order.
#pragma once

#include "ir/dialect/Kfuse.h"

#include "mlir/IR/PatternMatch.h"

#include <optional>

namespace kfuse::passes {

inline mlir::RankedTensorType typeOf(mlir::Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }
inline bool holdsFloats(mlir::Value value) { return llvm::isa<mlir::FloatType>(typeOf(value).getElementType()); }

/// The one number a constant tensor holds, through reshapes and broadcasts.
std::optional<double> splatValue(mlir::Value value);
/// The same as an attribute, which holds every integer exactly; null when there is none.
mlir::Attribute splatAttribute(mlir::Value value);
/// Whether a constant tensor holds `expected`, as nearly as its element type (or an author's four
/// digits) can say it: 1e-4 in f32, one unit in the last place in the narrow floats.
bool isAbout(mlir::Value value, double expected);
bool isAbout(double value, double expected, mlir::Type elementType);
/// Whether a constant tensor holds exactly `expected`.
bool isExactly(mlir::Value value, double expected);

/// A constant tensor of `type` that holds `value` everywhere.
mlir::Value makeSplat(mlir::OpBuilder &builder, mlir::Location location, mlir::RankedTensorType type, double value);
/// `value` in the shape `shape`: itself, or a reshape.
mlir::Value reshapeTo(mlir::OpBuilder &builder, mlir::Value value, llvm::ArrayRef<int64_t> shape);
/// `value` broadcast to `type`: itself, a reshape, or a broadcast.
mlir::Value broadcastTo(mlir::OpBuilder &builder, mlir::Value value, mlir::RankedTensorType type);
/// A copy of `op` on other operands, with `type` as its one result's type and its attributes kept.
mlir::Value cloneWith(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands, mlir::Type type);

/// Calls `match(a, b)` on the two operands in either order until it holds.
template <class Match> bool inEitherOrder(mlir::Operation *op, Match match) {
  return match(op->getOperand(0), op->getOperand(1)) || match(op->getOperand(1), op->getOperand(0));
}

llvm::SmallVector<int64_t> inverse(llvm::ArrayRef<int64_t> permutation);
/// dims[permutation[i]] for each i.
llvm::SmallVector<int64_t> permuted(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> permutation);

/// `value` before reshapes and broadcasts: what keepdims and expand wrapped around it.
mlir::Value peelViews(mlir::Value value);

/// What `function` ("mean", "max", ...) reduces over the last dimension to give `value`, before it was
/// reshaped or broadcast back; a mean may be written as a sum times 1/n. Null when it is something else.
mlir::Value reducedRow(mlir::Value value, llvm::StringRef function);

/// For each dimension of `coarse`, how many dimensions of `fine` it merges; nothing when the shapes do
/// not nest.
std::optional<llvm::SmallVector<int64_t>> mergedCounts(llvm::ArrayRef<int64_t> fine, llvm::ArrayRef<int64_t> coarse);

/// What constant indices pick from a dimension of `size`: negative ones count from its end, and what lies
/// outside is clamped. Nothing where they are not constant.
std::optional<llvm::SmallVector<int64_t>> constantPositions(mlir::Value indices, int64_t size);

/// Element by element: a result element needs one element of each operand.
bool isElementwise(mlir::Operation *op);
/// A result row needs one row of operand 0, and rows do not meet: softmax, norms, rotary embedding.
bool isRowwise(mlir::Operation *op);

} // namespace kfuse::passes
