// Ops that move elements: they only transform indices.
#include "ir/IndexMath.h"
#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace kfuse::ir {
namespace {

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

LogicalResult verifySameElement(Operation *op) {
  if (elementOf(op->getOperand(0)) == elementOf(op->getResult(0)))
    return success();
  return op->emitOpError("takes ") << elementOf(op->getOperand(0)) << " but gives " << elementOf(op->getResult(0));
}

/// What `body` gives where all guards hold.
Scalar underGuards(ScalarBuilder &builder, ArrayRef<Guard> guards, llvm::function_ref<Scalar()> body) {
  if (guards.empty())
    return body();
  return builder.guarded(guards.front(), [&] { return underGuards(builder, guards.drop_front(), body); });
}

} // namespace

LogicalResult ReshapeOp::verify() {
  int64_t from = getOperand().getType().getNumElements(), to = getType().getNumElements();
  if (from != to)
    return emitOpError("cannot give ") << from << " elements the shape [" << getType().getShape() << "] of " << to;
  return verifySameElement(*this);
}

Scalar ReshapeOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  AffineExpr offset = linearise(index, getType().getShape(), getContext());
  return builder.operand(0, delinearise(offset, dimsOf(getOperand())));
}

std::optional<SmallVector<AffineExpr>> ReshapeOp::forwardIndex(unsigned, ArrayRef<AffineExpr> operandIndex) {
  return delinearise(linearise(operandIndex, dimsOf(getOperand()), getContext()), getType().getShape());
}

LogicalResult TransposeOp::verify() {
  ArrayRef<int64_t> from = dimsOf(getOperand()), to = getType().getShape(), permutation = getPermutation();
  if (permutation.size() != from.size() || to.size() != from.size())
    return emitOpError("permutes ") << from.size() << " dimensions with " << permutation.size() << " entries into "
                                    << to.size();
  SmallVector<bool> seen(from.size());
  for (auto [i, source] : llvm::enumerate(permutation)) {
    if (source < 0 || source >= static_cast<int64_t>(from.size()) || seen[source])
      return emitOpError("has no permutation of 0 to ") << from.size() - 1 << ": [" << permutation << "]";
    seen[source] = true;
    if (to[i] != from[source])
      return emitOpError("gives dimension ")
             << i << " the size " << to[i] << ", but the operand's dimension " << source << " has " << from[source];
  }
  return verifySameElement(*this);
}

Scalar TransposeOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  SmallVector<AffineExpr> source(index.size());
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    source[dim] = index[i];
  return builder.operand(0, source);
}

std::optional<SmallVector<AffineExpr>> TransposeOp::forwardIndex(unsigned, ArrayRef<AffineExpr> operandIndex) {
  SmallVector<AffineExpr> result;
  for (int64_t dim : getPermutation())
    result.push_back(operandIndex[dim]);
  return result;
}

LogicalResult BroadcastOp::verify() {
  SmallVector<int64_t> shape;
  ArrayRef<int64_t> from = dimsOf(getOperand()), to = getType().getShape();
  if (!detail::broadcastShapes(from, to, shape) || ArrayRef(shape) != to)
    return emitOpError("cannot broadcast [") << from << "] to [" << to << "]";
  return verifySameElement(*this);
}

Scalar BroadcastOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  return builder.operand(0, detail::broadcastIndex(dimsOf(getOperand()), index, getContext()));
}

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> from = dimsOf(getOperand()), to = getType().getShape(), offsets = getOffsets(),
                    strides = getStrides();
  if (to.size() != from.size() || offsets.size() != from.size() || strides.size() != from.size())
    return emitOpError("slices ") << from.size() << " dimensions with " << offsets.size() << " offsets and "
                                  << strides.size() << " strides into " << to.size();
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t last = 0;
    const bool isBeyond =
        __builtin_mul_overflow(to[i] - 1, strides[i], &last) || __builtin_add_overflow(offsets[i], last, &last);
    if (to[i] > 0 && isBeyond)
      return emitOpError("reads dimension ") << i << " at strides of " << strides[i] << ", beyond every size";
    if (to[i] > 0 && (offsets[i] < 0 || offsets[i] >= from[i] || last < 0 || last >= from[i]))
      return emitOpError("reads ") << offsets[i] << " to " << last << " of dimension " << i << ", which has the size "
                                   << from[i];
  }
  return verifySameElement(*this);
}

Scalar SliceOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  SmallVector<AffineExpr> source;
  for (auto [expr, offset, stride] : llvm::zip_equal(index, getOffsets(), getStrides()))
    source.push_back(expr * stride + offset);
  return builder.operand(0, source);
}

LogicalResult ConcatOp::verify() {
  ArrayRef<int64_t> to = getType().getShape();
  int64_t axis = getAxis(), total = 0;
  if (getOperands().empty() || axis < 0 || axis >= static_cast<int64_t>(to.size()))
    return emitOpError("joins ") << getOperands().size() << " operands along axis " << axis << " of " << to.size();
  for (auto [number, operand] : llvm::enumerate(getOperands())) {
    ArrayRef<int64_t> from = dimsOf(operand);
    for (size_t i = 0; i < std::max(from.size(), to.size()); ++i)
      if (from.size() != to.size() || (static_cast<int64_t>(i) != axis && from[i] != to[i]))
        return emitOpError("operand ") << number << " of shape [" << from << "] does not fit the result [" << to
                                       << "] outside axis " << axis;
    total += from[axis];
    if (elementOf(operand) != getType().getElementType())
      return emitOpError("operand ") << number << " holds " << elementOf(operand) << ", the result "
                                     << getType().getElementType();
  }
  if (total != to[axis])
    return emitOpError("operands add up to ") << total << " along axis " << axis << ", the result has " << to[axis];
  return success();
}

Scalar ConcatOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  int64_t axis = getAxis();
  DType type = dtypeOf(getType());
  AffineExpr along = index[axis];
  Scalar result;
  int64_t start = 0;
  // Later pieces win where the index reaches them: where(i < start, earlier, this).
  for (auto [number, operand] : llvm::enumerate(getOperands())) {
    int64_t size = dimsOf(operand)[axis];
    Scalar piece = builder.guarded({along, start, start + size}, [&, number = number] {
      SmallVector<AffineExpr> where(index);
      where[axis] = along - start;
      return builder.operand(number, where);
    });
    if (!piece)
      return {};
    if (result) {
      Scalar isEarlier =
          builder.apply("lt", {builder.indexValue(along), builder.integer(start, DType::I64)}, DType::Bool);
      result = builder.apply("where", {isEarlier, result, piece}, type);
    } else {
      result = piece;
    }
    start += size;
  }
  return result;
}

LogicalResult WindowOp::verify() {
  ArrayRef<int64_t> from = dimsOf(getOperand()), to = getType().getShape(), kernel = getKernel();
  const size_t count = kernel.size(), outer = from.size() - count;
  if (count == 0 || count > from.size() || getStrides().size() != count || getDilations().size() != count ||
      getPads().size() != count || to.size() != from.size() + count)
    return emitOpError("slides windows of ") << count << " dimensions, with " << getStrides().size() << " strides, "
                                             << getDilations().size() << " dilations and " << getPads().size()
                                             << " pads, over " << from.size() << " dimensions into " << to.size();
  if (from.take_front(outer) != to.take_front(outer))
    return emitOpError("gives [") << to << "], which does not begin as [" << from << "] without its last " << count;
  for (size_t i = 0; i < count; ++i) {
    if (kernel[i] < 1 || getStrides()[i] < 1 || getDilations()[i] < 1)
      return emitOpError("has kernel ") << kernel[i] << ", stride " << getStrides()[i] << " and dilation "
                                        << getDilations()[i] << "; each must be 1 or more";
    if (to[outer + i] != kernel[i])
      return emitOpError("gives dimension ")
             << outer + i << " the size " << to[outer + i] << ", but the kernel has " << kernel[i];
    // Indices must not overflow; where they leave the operand they read nothing.
    int64_t step = 0, reach = 0;
    if (__builtin_mul_overflow(to[outer + count + i], getStrides()[i], &step) ||
        __builtin_mul_overflow(kernel[i], getDilations()[i], &reach) || __builtin_add_overflow(step, reach, &reach) ||
        __builtin_sub_overflow(reach, getPads()[i], &reach))
      return emitOpError("reads dimension ") << outer + i << " beyond every size";
  }
  return verifySameElement(*this);
}

Scalar WindowOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  ArrayRef<int64_t> from = dimsOf(getOperand()), kernel = getKernel(), to = getType().getShape();
  const size_t count = kernel.size(), outer = from.size() - count;
  SmallVector<AffineExpr> where(index.take_front(outer));
  SmallVector<Guard> guards;
  for (size_t i = 0; i < count; ++i) {
    const int64_t stride = getStrides()[i], dilation = getDilations()[i], pad = getPads()[i];
    where.push_back(index[outer + count + i] * stride + index[outer + i] * dilation - pad);
    const int64_t last = (to[outer + count + i] - 1) * stride + (kernel[i] - 1) * dilation - pad;
    if (pad > 0 || last >= from[outer + i])
      guards.push_back({where.back(), 0, from[outer + i]});
  }
  const Scalar element = underGuards(builder, guards, [&] { return builder.operand(0, where); });
  if (!element || guards.empty() || builder.isLoad(element))
    return element;
  // What is computed of the loads, which are 0 outside, need not be 0 there: a sigmoid is 0.5.
  const DType type = dtypeOf(getType());
  Scalar isInside;
  auto require = [&](Scalar holds) {
    isInside = isInside ? builder.apply("and", {isInside, holds}, DType::Bool) : holds;
  };
  for (const Guard &guard : guards) {
    const Scalar position = builder.indexValue(guard.index);
    require(builder.apply("ge", {position, builder.integer(guard.low, DType::I64)}, DType::Bool));
    require(builder.apply("lt", {position, builder.integer(guard.high, DType::I64)}, DType::Bool));
  }
  const Scalar zero = isFloat(type) ? builder.constant(0, type) : builder.integer(0, type);
  return builder.apply("where", {isInside, element, zero}, type);
}

LogicalResult PrefixOp::verify() {
  const int64_t rank = dimsOf(getOperand()).size();
  const ArrayRef<int64_t> lengths = dimsOf(getLengths());
  if (static_cast<int64_t>(getAxis()) < 0 || static_cast<int64_t>(getAxis()) >= rank)
    return emitOpError("ends along axis ") << getAxis() << " of " << rank << " dimensions";
  if (lengths.size() != 1 || static_cast<int64_t>(getLength()) < 0 || static_cast<int64_t>(getLength()) >= lengths[0])
    return emitOpError("reads length ") << getLength() << " of a tensor [" << lengths << "]";
  if (getOperand().getType() != getType())
    return emitOpError("takes ") << getOperand().getType() << " but gives " << getType();
  return success();
}

Scalar PrefixOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) { return builder.operand(0, index); }

std::optional<SmallVector<AffineExpr>> PrefixOp::forwardIndex(unsigned operand, ArrayRef<AffineExpr> operandIndex) {
  return operand == 0 ? std::optional(SmallVector<AffineExpr>(operandIndex)) : std::nullopt;
}

LogicalResult GatherOp::verify() {
  ArrayRef<int64_t> data = dimsOf(getData()), indices = dimsOf(getIndices());
  int64_t axis = getAxis();
  if (axis < 0 || axis >= static_cast<int64_t>(data.size()))
    return emitOpError("gathers along axis ") << axis << " of " << data.size() << " dimensions";
  if (data[axis] == 0 && !llvm::is_contained(getType().getShape(), 0))
    return emitOpError("gathers along axis ") << axis << " of [" << data << "], which holds nothing";
  SmallVector<int64_t> expected(data.take_front(axis));
  llvm::append_range(expected, indices);
  llvm::append_range(expected, data.drop_front(axis + 1));
  if (ArrayRef(expected) != getType().getShape())
    return emitOpError("gives [") << getType().getShape() << "], but data and indices make [" << expected << "]";
  return verifySameElement(*this);
}

Scalar GatherOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  int64_t axis = getAxis(), rank = dimsOf(getIndices()).size(), size = dimsOf(getData())[axis];
  DType type = dtypeOf(getIndices().getType());
  Scalar position = builder.operand(1, index.slice(axis, rank));
  if (!position)
    return {};
  // Negative indices count from the end; then clamp, so that no index leaves the data.
  Scalar zero = builder.integer(0, type);
  Scalar isNegative = builder.apply("lt", {position, zero}, DType::Bool);
  Scalar fromEnd = builder.apply("add", {position, builder.integer(size, type)}, type);
  position = builder.apply("where", {isNegative, fromEnd, position}, type);
  position =
      builder.apply("min", {builder.apply("max", {position, zero}, type), builder.integer(size - 1, type)}, type);

  SmallVector<AffineExpr> where(index.take_front(axis));
  where.push_back(builder.dynamicIndex(position, size));
  llvm::append_range(where, index.drop_front(axis + rank));
  return builder.operand(0, where);
}

} // namespace kfuse::ir
