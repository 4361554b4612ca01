#include "passes/simplify/Matchers.h"

#include "mlir/IR/Matchers.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {

Attribute splatAttribute(Value value) {
  auto constant = peelViews(value).getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return dense && dense.isSplat() ? dense.getSplatValue<Attribute>() : Attribute();
}

std::optional<double> splatValue(Value value) {
  Attribute attribute = splatAttribute(value);
  if (!attribute)
    return std::nullopt;
  if (auto real = dyn_cast<FloatAttr>(attribute)) {
    APFloat number = real.getValue();
    bool loses = false;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    return number.convertToDouble();
  }
  APInt number = cast<IntegerAttr>(attribute).getValue();
  return number.getBitWidth() == 1 ? number.getZExtValue() : static_cast<double>(number.getSExtValue());
}

bool isAbout(double value, double expected, Type elementType) {
  double tolerance = elementType.isBF16() ? 0x1p-8 : elementType.isF16() ? 0x1p-10 : 1e-4;
  return std::abs(value - expected) <= tolerance * std::abs(expected);
}

bool isAbout(Value value, double expected) {
  std::optional<double> number = splatValue(value);
  return number && isAbout(*number, expected, typeOf(value).getElementType());
}

bool isExactly(Value value, double expected) {
  std::optional<double> number = splatValue(value);
  return number && *number == expected;
}

Value makeSplat(OpBuilder &builder, Location location, RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute attribute = isa<FloatType>(element) ? Attribute(builder.getFloatAttr(element, value))
                                                : builder.getIntegerAttr(element, static_cast<int64_t>(value));
  return builder.create<ConstantOp>(location, DenseElementsAttr::get(type, attribute));
}

Value reshapeTo(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  if (dimsOf(value) == shape)
    return value;
  return builder.create<ReshapeOp>(value.getLoc(), typeOf(value).clone(shape), value);
}

Value broadcastTo(OpBuilder &builder, Value value, RankedTensorType type) {
  if (typeOf(value).getNumElements() == type.getNumElements())
    return reshapeTo(builder, value, type.getShape());
  return builder.create<BroadcastOp>(value.getLoc(), type, value);
}

Value cloneWith(OpBuilder &builder, Operation *op, ValueRange operands, Type type) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(op->getAttrs());
  return builder.create(state)->getResult(0);
}

SmallVector<int64_t> inverse(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> result(permutation.size());
  for (auto [i, dim] : llvm::enumerate(permutation))
    result[dim] = i;
  return result;
}

SmallVector<int64_t> permuted(ArrayRef<int64_t> dims, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> result;
  for (int64_t dim : permutation)
    result.push_back(dims[dim]);
  return result;
}

Value peelViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, BroadcastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

Value reducedRow(Value value, StringRef function) {
  value = peelViews(value);
  if (auto reduce = value.getDefiningOp<ReduceOp>()) {
    int64_t last = static_cast<int64_t>(dimsOf(reduce.getOperand()).size()) - 1;
    return reduce.getFunction() == function && reduce.getAxes() == ArrayRef(last) ? reduce.getOperand() : Value();
  }
  if (function != "mean" || !isa_and_nonnull<MulOp, DivOp>(value.getDefiningOp()))
    return {};
  bool divides = isa<DivOp>(value.getDefiningOp());
  Value row = reducedRow(value.getDefiningOp()->getOperand(0), "sum");
  if (!row)
    return {};
  auto size = static_cast<double>(dimsOf(row).back());
  return isAbout(value.getDefiningOp()->getOperand(1), divides ? size : 1 / size) ? row : Value();
}

std::optional<SmallVector<int64_t>> mergedCounts(ArrayRef<int64_t> fine, ArrayRef<int64_t> coarse) {
  SmallVector<int64_t> counts;
  size_t next = 0;
  for (int64_t wanted : coarse) {
    size_t begin = next;
    int64_t size = 1;
    while (size < wanted && next < fine.size())
      size *= fine[next++];
    if (size != wanted)
      return std::nullopt;
    counts.push_back(next - begin);
  }
  if (llvm::any_of(fine.drop_front(next), [](int64_t size) { return size != 1; }))
    return std::nullopt;
  if (!counts.empty())
    counts.back() += fine.size() - next;
  return counts;
}

std::optional<SmallVector<int64_t>> constantPositions(Value indices, int64_t size) {
  while (auto reshape = indices.getDefiningOp<ReshapeOp>())
    indices = reshape.getOperand();
  auto constant = indices.getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  if (!dense)
    return std::nullopt;
  return llvm::to_vector<6>(llvm::map_range(dense.getValues<APInt>(), [&](const APInt &value) {
    int64_t index = value.getSExtValue();
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size - 1);
  }));
}

bool isElementwise(Operation *op) {
  auto fusable = dyn_cast<FusableOpInterface>(op);
  return fusable && fusable.getOpKind() == OpKind::Pointwise && !isRowwise(op) && !fusable.isComputedByReaders();
}

bool isRowwise(Operation *op) {
  auto fusable = dyn_cast<FusableOpInterface>(op);
  if (!fusable || op->getNumOperands() == 0 || dimsOf(op->getOperand(0)) != dimsOf(op->getResult(0)))
    return false;
  return fusable.getOpKind() == OpKind::RowReduction || isa<RotaryOp>(op);
}

} // namespace kfuse::passes
