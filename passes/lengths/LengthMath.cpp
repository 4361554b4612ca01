#include "passes/lengths/LengthMath.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {

Rows::Rows(llvm::ArrayRef<Axis> axes) {
  size_t end = axes.size();
  while (end > 0 && axes[end - 1].isFixed())
    inner *= axes[--end].size();
  Axis all; // Merged, so that fixed factors in front of and behind a length are part of it where they may be.
  for (const Axis &axis : axes.take_front(end))
    for (const Factor &factor : axis.factors())
      all.append(factor);
  llvm::append_range(factors, all.factors());
  if (!factors.empty() && factors.back().plus == 0) { // [tokens * 64] is rows of 64.
    Factor &last = factors.back();
    inner *= last.times;
    last.size /= last.times;
    last.times = 1;
  }
  for (const Factor &factor : factors)
    count *= factor.size;
}

Value prefixOf(OpBuilder &builder, Value value, ArrayRef<Axis> axes, llvm::function_ref<Value()> lengths) {
  for (unsigned axis = axes.size(); axis-- > 0;) {
    const auto factors = axes[axis].factors();
    if (factors.empty() || factors.front().isFixed())
      continue;
    int64_t rest = 1;
    for (const Factor &factor : factors.drop_front())
      rest *= factor.size;
    const Factor &first = factors.front();
    value = builder.create<PrefixOp>(value.getLoc(), value.getType(), value, lengths(), axis, first.dim,
                                     first.times * rest, first.plus * rest);
  }
  return value;
}

Value LengthMath::constant(Attribute number) {
  auto type = RankedTensorType::get({1}, cast<TypedAttr>(number).getType());
  return builder.create<ConstantOp>(location, DenseElementsAttr::get(type, number));
}

Value LengthMath::iota(int64_t count) {
  return builder.create<IotaOp>(location, RankedTensorType::get({count}, builder.getI64Type()), 0);
}

Value LengthMath::reshape(Value value, ArrayRef<int64_t> shape) {
  if (dimsOf(value) == shape)
    return value;
  auto type = RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType());
  return builder.create<ReshapeOp>(location, type, value);
}

Value LengthMath::cast(Value value, Type element) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return builder.create<CastOp>(location, type.clone(element), value);
}

Value LengthMath::length(const Factor &factor) {
  if (factor.isFixed())
    return integer(factor.size);
  auto type = RankedTensorType::get({1}, builder.getI64Type());
  Value value = builder.create<SliceOp>(location, type, lengths, ArrayRef<int64_t>{factor.dim}, ArrayRef<int64_t>{1});
  if (factor.times != 1)
    value = make<MulOp>({value, integer(factor.times)});
  if (factor.plus != 0)
    value = make<AddOp>({value, integer(factor.plus)});
  return value;
}

/// The index of each factor, of `count` elements in row-major order.
llvm::SmallVector<LengthMath::Coordinate> LengthMath::coordinates(ArrayRef<Factor> factors, int64_t count) {
  llvm::SmallVector<Coordinate> found;
  const Value index = iota(count);
  int64_t stride = count;
  for (auto [number, factor] : llvm::enumerate(factors)) {
    stride /= factor.size;
    Value own = stride == 1 ? index : make<DivOp>({index, integer(stride)});
    found.push_back({factor, number == 0 ? own : make<RemOp>({own, integer(factor.size)})});
  }
  return found;
}

/// Null where all do, whatever the lengths are.
Value LengthMath::allCount(ArrayRef<Coordinate> coordinates) {
  Value all;
  for (const Coordinate &one : coordinates) {
    if (one.factor.isFixed())
      continue;
    Value counts = make<LtOp>({one.index, length(one.factor)});
    all = all ? make<AndOp>({all, counts}) : counts;
  }
  return all;
}

/// The row of a tensor of the run's lengths.
Value LengthMath::place(ArrayRef<Coordinate> coordinates, bool clamps) {
  Value row;
  for (const Coordinate &one : coordinates) {
    const Value size = length(one.factor);
    const bool mayLeave = clamps && !one.factor.isFixed();
    Value index = mayLeave ? make<MinOp>({one.index, make<SubOp>({size, integer(1)})}) : one.index;
    row = row ? make<AddOp>({make<MulOp>({row, size}), index}) : index;
  }
  return row;
}

Value LengthMath::counting(const Axis &axis, unsigned dim, unsigned rank) {
  llvm::SmallVector<int64_t> shape(rank, 1);
  shape[dim] = axis.size();
  return reshape(allCount(coordinates(axis.factors(), axis.size())), shape);
}

Value LengthMath::rowsToRead(const Rows &rows) { return place(coordinates(rows.factors, rows.count), true); }

Value LengthMath::rowsToWrite(const Rows &rows, int64_t elsewhere) {
  const auto indices = coordinates(rows.factors, rows.count);
  return where(allCount(indices), place(indices, false), integer(elsewhere));
}

Value LengthMath::whetherToWrite(const Rows &rows) {
  return where(allCount(coordinates(rows.factors, rows.count)), integer(0), integer(1));
}

} // namespace kfuse::passes
