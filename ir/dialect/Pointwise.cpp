// Elementwise ops: broadcasting, cast, and rotary embedding.
#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace kfuse::ir {
namespace detail {

int64_t pointwiseFlops(Operation *op) { return cast<RankedTensorType>(op->getResult(0).getType()).getNumElements(); }

bool broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b, SmallVectorImpl<int64_t> &out) {
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<int64_t> result(a);
  size_t shift = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &size = result[shift + i];
    if (size != b[i] && size != 1 && b[i] != 1)
      return false;
    if (size == 1)
      size = b[i];
  }
  out.assign(result.begin(), result.end());
  return true;
}

SmallVector<AffineExpr> broadcastIndex(ArrayRef<int64_t> dims, ArrayRef<AffineExpr> index, MLIRContext *context) {
  SmallVector<AffineExpr> result(index.take_back(dims.size()));
  for (auto [expr, size] : llvm::zip_equal(result, dims))
    if (size == 1)
      expr = getAffineConstantExpr(0, context);
  return result;
}

Scalar scalarisePointwise(Operation *op, StringRef function, ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  SmallVector<Scalar, 3> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    operands.push_back(builder.operand(i, broadcastIndex(dimsOf(operand), index, op->getContext())));
    if (!operands.back())
      return {};
  }
  return builder.apply(function, operands, dtypeOf(op->getResult(0).getType()));
}

std::optional<SmallVector<AffineExpr>> forwardPointwise(Operation *op, unsigned operand,
                                                        ArrayRef<AffineExpr> operandIndex) {
  if (dimsOf(op->getOperand(operand)) != dimsOf(op->getResult(0)))
    return std::nullopt;
  return SmallVector<AffineExpr>(operandIndex);
}

LogicalResult inferPointwise(StringRef name, std::optional<Location> location, ValueRange operands,
                             ResultElement element, SmallVectorImpl<Type> &types) {
  SmallVector<int64_t> shape;
  // `where` takes its condition first: the values' types are compared from the second operand on.
  unsigned firstValue = element == ResultElement::lastOperand ? 1 : 0;
  Type elementType = getElementTypeOrSelf(operands.back());
  for (auto [i, operand] : llvm::enumerate(operands)) {
    SmallVector<int64_t> before = shape;
    if (!broadcastShapes(before, dimsOf(operand), shape))
      return emitOptionalError(location, name, ": operand ", i, " of shape [", dimsOf(operand),
                               "] does not broadcast with [", before, "]");
    if (i >= firstValue && getElementTypeOrSelf(operand) != elementType)
      return emitOptionalError(location, name, ": operand ", i, " holds ", getElementTypeOrSelf(operand),
                               ", the last operand ", elementType, "; cast one of them");
  }
  if (element == ResultElement::boolean)
    elementType = IntegerType::get(elementType.getContext(), 1);
  types.push_back(RankedTensorType::get(shape, elementType));
  return success();
}

} // namespace detail

Scalar CastOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  Scalar value = builder.operand(0, index);
  return value ? builder.cast(value, dtypeOf(getType())) : value;
}

int64_t RotaryOp::getFlops() { return 3 * getType().getNumElements(); }

LogicalResult RotaryOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr, OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  ArrayRef<int64_t> dims = dimsOf(operands[0]);
  if (dims.empty() || dims.back() % 2)
    return emitOptionalError(location, "kfuse.rotary: the last dimension must be even, got [", dims, "]");
  for (Value table : operands.drop_front()) {
    SmallVector<int64_t> widened(dimsOf(table)), result;
    if (!widened.empty() && widened.back() * 2 == dims.back())
      widened.back() = dims.back();
    if (widened.empty() || !detail::broadcastShapes(dims, widened, result) || ArrayRef(result) != dims ||
        widened.back() != dims.back())
      return emitOptionalError(location, "kfuse.rotary: table of shape [", dimsOf(table), "] does not broadcast to [",
                               dims, "] or to half its last dimension");
    if (getElementTypeOrSelf(table) != getElementTypeOrSelf(operands[0]))
      return emitOptionalError(location, "kfuse.rotary: table holds ", getElementTypeOrSelf(table), ", the operand ",
                               getElementTypeOrSelf(operands[0]));
  }
  types.push_back(operands[0].getType());
  return success();
}

Scalar RotaryOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  DType type = dtypeOf(getType());
  int64_t size = dimsOf(getOperand()).back(), half = size / 2;
  AffineExpr i = index.back();
  bool interleaved = getInterleaved();

  auto at = [&](unsigned operand, AffineExpr last) {
    SmallVector<AffineExpr> where(index);
    where.back() = last;
    ArrayRef<int64_t> dims = dimsOf(getOperation()->getOperand(operand));
    return builder.operand(operand, detail::broadcastIndex(dims, where, getContext()));
  };
  auto table = [&](unsigned operand) {
    bool isHalf = dimsOf(getOperation()->getOperand(operand)).back() == half && half != size;
    return at(operand, !isHalf ? i : interleaved ? i.floorDiv(2) : i % half);
  };
  AffineExpr pair = interleaved ? i + 1 - (i % 2) * 2 : (i + half) % size;
  AffineExpr position = interleaved ? i % 2 : i.floorDiv(half); // 0 for the first of a pair.

  Scalar x = at(0, i), other = at(0, pair), cos = table(1), sin = table(2);
  if (!x || !other || !cos || !sin)
    return {};
  Scalar isFirst = builder.apply("eq", {builder.indexValue(position), builder.integer(0, DType::I64)}, DType::Bool);
  Scalar turned = builder.apply("where", {isFirst, builder.apply("neg", {other}, type), other}, type);
  return builder.apply("add", {builder.apply("mul", {x, cos}, type), builder.apply("mul", {turned, sin}, type)}, type);
}

} // namespace kfuse::ir
