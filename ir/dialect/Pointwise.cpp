// Elementwise ops: broadcasting, cast, and rotary embedding.
#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

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

/// The number that a store of `type` would leave of a float. Regions compute in f32: `round` and dequantize are the
/// only ops that round before they go on.
static Scalar roundedTo(DType type, Scalar value, ScalarBuilder &builder) {
  const bool isHalf = type == DType::F16 || type == DType::BF16;
  return isHalf ? builder.apply(type == DType::F16 ? "round_to_f16" : "round_to_bf16", {value}, type) : value;
}

Scalar scalarisePointwise(Operation *op, StringRef function, ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  SmallVector<Scalar, 3> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    operands.push_back(builder.operand(i, broadcastIndex(dimsOf(operand), index, op->getContext())));
    if (!operands.back())
      return {};
  }
  const DType type = dtypeOf(op->getResult(0).getType());
  if (isa<RoundOp>(op)) // In 16 bits many a quotient lies halfway between integers.
    operands[0] = roundedTo(type, operands[0], builder);
  return builder.apply(function, operands, type);
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

LogicalResult CastOp::verify() {
  if (isPacked(dtypeOf(getType())))
    return emitOpError("makes ") << elementTypeOf(dtypeOf(getType()), getContext())
                                 << ", of which two share a byte; cast to i8 or ui8";
  return success();
}

/// Integers of 8 bits are computed in i32, which a store cuts: what is read again before has to be cut, too.
static Scalar toSmallInteger(ScalarBuilder &builder, Scalar value, bool saturates, SmallInteger range) {
  auto apply = [&](StringRef function, Scalar a, int64_t b) {
    return builder.apply(function, {a, builder.integer(b, DType::I32)}, DType::I32);
  };
  value = builder.cast(value, DType::I32);
  if (saturates)
    return apply("min", apply("max", value, range.lowest), range.largest);
  // The low 8 bits, counted from the lowest number of the type.
  return apply("add", apply("and", apply("sub", value, range.lowest), 255), range.lowest);
}

Scalar CastOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  const DType from = dtypeOf(getOperand().getType()), to = dtypeOf(getType());
  const Scalar value = builder.operand(0, index);
  const std::optional<SmallInteger> range = smallInteger(to), given = smallInteger(from);
  const bool fits =
      range && (from == DType::Bool || (given && given->lowest >= range->lowest && given->largest <= range->largest));
  if (!value || !range || fits)
    return value ? builder.cast(value, to) : value;
  return toSmallInteger(builder, value, isFloat(from), *range);
}

int64_t DequantizeOp::getFlops() { return (getZeros() ? 2 : 1) * getType().getNumElements(); }

LogicalResult DequantizeOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                             DictionaryAttr, OpaqueProperties, RegionRange,
                                             SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get(dimsOf(operands[0]), getElementTypeOrSelf(operands[1])));
  return success();
}

LogicalResult DequantizeOp::verify() {
  ArrayRef<int64_t> dims = dimsOf(getQuantized()), scales = dimsOf(getScales()), blocks = getBlocks();
  if (blocks.size() != dims.size() || scales.size() != dims.size())
    return emitOpError("has blocks [") << blocks << "] and scales of [" << scales << "] for " << dims.size()
                                       << " dimensions";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (blocks[i] < 0)
      return emitOpError("has blocks of ") << blocks[i] << " along dimension " << i << "; 0, for all of it, or more";
    if (const int64_t expected = blocks[i] == 0 ? 1 : llvm::divideCeil(dims[i], blocks[i]); scales[i] != expected)
      return emitOpError("has ") << scales[i] << " scales along dimension " << i << ", but its " << dims[i]
                                 << " elements make " << expected << " blocks of " << blocks[i];
  }
  if (getZeros() && dimsOf(getZeros()) != scales)
    return emitOpError("has zeros of [") << dimsOf(getZeros()) << "] beside scales of [" << scales << "]";
  return success();
}

Scalar DequantizeOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  SmallVector<AffineExpr> block;
  for (auto [expr, size, count] : llvm::zip_equal(index, getBlocks(), dimsOf(getScales())))
    block.push_back(count == 1 ? getAffineConstantExpr(0, getContext()) : expr.floorDiv(size));
  Scalar value = builder.operand(0, index), scale = builder.operand(1, block);
  Scalar zero = getZeros() ? builder.operand(2, block) : Scalar();
  if (!value || !scale || (getZeros() && !zero))
    return {};
  value = builder.cast(value, DType::F32);
  if (zero)
    value = detail::roundedTo(dtypeOf(getZeros().getType()),
                              builder.apply("sub", {value, builder.cast(zero, DType::F32)}, DType::F32), builder);
  return builder.apply("mul", {value, scale}, DType::F32);
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
  Scalar rotated = builder.apply("where", {isFirst, builder.apply("neg", {other}, type), other}, type);
  return builder.apply("add", {builder.apply("mul", {x, cos}, type), builder.apply("mul", {rotated, sin}, type)}, type);
}

} // namespace kfuse::ir
