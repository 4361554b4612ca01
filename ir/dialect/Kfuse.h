// The kfuse dialect: ops, interfaces, and what their definitions share.
#pragma once

#include "ir/Scalar.h"
#include "kfuse/types.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

namespace kfuse::ir {

/// How an op's result elements depend on its operands' elements.
enum class OpKind {
  Pointwise,    ///< Element by element (rotary: of a pair).
  RowReduction, ///< Elements of a row, or one element, from a whole row.
  Contraction,  ///< A matrix product.
  Layout,       ///< Elements moved, none computed.
  Generator,    ///< No operands: constants and indices.
  StateUpdate   ///< Writes into a state in place.
};
llvm::StringRef toString(OpKind kind);

/// Element type of a tensor as plain kfuse type; the dialect's tensors hold no other.
DType dtypeOf(mlir::Type tensorOrElement);
mlir::Type elementTypeOf(DType type, mlir::MLIRContext *context);
Shape shapeOf(mlir::Value value);
inline llvm::ArrayRef<int64_t> dimsOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
/// Dense size in memory.
int64_t bytesOf(mlir::Value value);

/// Names of the attributes on @main's arguments and results.
inline constexpr llvm::StringLiteral roleAttrName = "kfuse.role";
inline constexpr llvm::StringLiteral nameAttrName = "kfuse.name";
inline constexpr llvm::StringLiteral stateAttrName = "kfuse.state";
inline constexpr llvm::StringLiteral targetAttrName = "kfuse.target";
/// On an op that was inlined from a kfuse.attention region: the region's number.
inline constexpr llvm::StringLiteral attentionAttrName = "kfuse.attention";

namespace detail {
enum class ResultElement { operand, boolean, lastOperand };
int64_t pointwiseFlops(mlir::Operation *op);
Scalar scalarisePointwise(mlir::Operation *op, llvm::StringRef function, ScalarBuilder &builder,
                          llvm::ArrayRef<mlir::AffineExpr> index);
std::optional<llvm::SmallVector<mlir::AffineExpr>> forwardPointwise(mlir::Operation *op, unsigned operand,
                                                                    llvm::ArrayRef<mlir::AffineExpr> operandIndex);
llvm::LogicalResult inferPointwise(llvm::StringRef name, std::optional<mlir::Location> location,
                                   mlir::ValueRange operands, ResultElement element,
                                   llvm::SmallVectorImpl<mlir::Type> &types);
/// NumPy broadcast of shapes aligned at the right; false when two sizes disagree.
bool broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b, llvm::SmallVectorImpl<int64_t> &out);
/// The index of an operand of shape `dims` that broadcasting reads for the result's `index`.
llvm::SmallVector<mlir::AffineExpr> broadcastIndex(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<mlir::AffineExpr> index,
                                                   mlir::MLIRContext *context);
} // namespace detail

} // namespace kfuse::ir

#include "ir/dialect/KfuseInterfaces.h.inc"

#include "ir/dialect/KfuseDialect.h.inc"

#define GET_OP_CLASSES
#include "ir/dialect/KfuseOps.h.inc"
