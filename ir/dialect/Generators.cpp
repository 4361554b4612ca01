// Ops without operands, and those that write states.
#include "ir/dialect/Kfuse.h"
#include "ir/dialect/ScatteredRows.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace kfuse::ir {

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

Scalar ConstantOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr>) {
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  if (!dense || !dense.isSplat())
    return builder.refuse("a constant that is not a splat is an input of its region");
  DType type = dtypeOf(getType());
  if (isFloat(type))
    return builder.constant(dense.getSplatValue<APFloat>().convertToDouble(), type);
  APInt value = dense.getSplatValue<APInt>();
  const std::optional<SmallInteger> small = smallInteger(type);
  const bool isUnsigned = type == DType::Bool || (small && small->lowest == 0);
  return builder.integer(isUnsigned ? value.getZExtValue() : value.getSExtValue(), type);
}

LogicalResult IotaOp::verify() {
  if (static_cast<int64_t>(getDim()) < 0 || static_cast<int64_t>(getDim()) >= getType().getRank())
    return emitOpError("counts along dimension ") << getDim() << " of " << getType().getRank();
  return success();
}

Scalar IotaOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  return builder.cast(builder.indexValue(index[getDim()]), dtypeOf(getType()));
}

LogicalResult StateUpdateOp::verify() {
  ArrayRef<int64_t> state = dimsOf(getState()), value = dimsOf(getValue()), position = dimsOf(getPosition());
  int64_t axis = getAxis();
  bool fits = value.size() == state.size() && axis >= 0 && axis < static_cast<int64_t>(state.size());
  for (size_t i = 0; fits && i < state.size(); ++i)
    fits = static_cast<int64_t>(i) == axis ? value[i] <= state[i] : value[i] == state[i];
  if (!fits)
    return emitOpError("writes [") << value << "] along axis " << axis << " of a state of [" << state << "]";
  if (cast<RankedTensorType>(getValue().getType()).getElementType() != getType().getElementType())
    return emitOpError("writes ") << getValue().getType() << " into " << getType();
  if (isPacked(dtypeOf(getType())))
    return emitOpError("writes ") << getValue().getType() << ", of whose elements two share a byte";
  if (scattersRows(*this))
    return success();
  if (position.size() > 1 || (position.size() == 1 && position[0] != 1 && position[0] != state[0]))
    return emitOpError("takes one position, one per index of dimension 0 (")
           << state[0] << ") or, behind that, per row (" << value[axis] << "), got [" << position << "]";
  return success();
}

Scalar StateUpdateOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr>) {
  // In place: only the graph builder, which knows the store, can describe it (ir/RegionScalars.cpp).
  return builder.refuse("a state update is the last op of its region");
}

} // namespace kfuse::ir
