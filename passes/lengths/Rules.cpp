#include "passes/lengths/Rules.h"

#include "passes/fuse/OpNames.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

Attribute numberOf(Type type, double value) {
  if (auto real = dyn_cast<FloatType>(type))
    return FloatAttr::get(real, value);
  return IntegerAttr::get(type, static_cast<int64_t>(value));
}

/// What no element of the type is below, or above.
Attribute lowestOf(Type type) {
  if (isa<FloatType>(type))
    return numberOf(type, -std::numeric_limits<double>::infinity());
  const unsigned bits = type.getIntOrFloatBitWidth();
  return IntegerAttr::get(type, bits == 1 ? llvm::APInt(1, 0) : llvm::APInt::getSignedMinValue(bits));
}
Attribute highestOf(Type type) {
  if (isa<FloatType>(type))
    return numberOf(type, std::numeric_limits<double>::infinity());
  const unsigned bits = type.getIntOrFloatBitWidth();
  return IntegerAttr::get(type, bits == 1 ? llvm::APInt(1, 1) : llvm::APInt::getSignedMaxValue(bits));
}

} // namespace

void LengthRules::refuse(const std::string &reason) {
  if (refusal.empty())
    refusal = reason;
}

llvm::ArrayRef<Axis> LengthRules::axesOf(Value value) const {
  auto found = known.find(value);
  return found == known.end() ? llvm::ArrayRef<Axis>() : llvm::ArrayRef<Axis>(found->second);
}

bool LengthRules::isFixed(Value value) const {
  return llvm::all_of(axesOf(value), [](const Axis &axis) { return axis.isFixed(); });
}

std::optional<Axis> LengthRules::axisBySize(Value value, unsigned dim) const {
  std::optional<Factor> factor = probes.fitSize(value, dim);
  return factor && (factor->isFixed() || factor->times > 0) ? std::optional(Axis(*factor)) : std::nullopt;
}

Result<Axes> LengthRules::axesBySize(Value value) const {
  Axes axes;
  for (unsigned dim = 0; dim < dimsOf(value).size(); ++dim) {
    std::optional<Axis> axis = axisBySize(value, dim);
    if (!axis)
      return Error{ErrorCode::BadModel, "its dimension " + std::to_string(dim) + " of " +
                                            std::to_string(dimsOf(value)[dim]) +
                                            " does not grow evenly with one length"};
    axes.push_back(std::move(*axis));
  }
  return axes;
}

Result<void> LengthRules::visit(Operation *op) {
  refusal.clear();
  replacement = {};
  math.before(op);
  Axes axes = llvm::TypeSwitch<Operation *, Axes>(op)
                  .Case<MatmulOp>([&](auto product) { return multiply(product); })
                  .Case<ReduceOp>([&](auto reduction) { return reduce(reduction); })
                  .Case<SoftmaxOp>([&](auto rows) { return softmax(rows); })
                  .Case<ReshapeOp>([&](auto reshape) {
                    std::optional<Axes> grouped = regroup(axesOf(reshape.getOperand()), dimsOf(reshape));
                    if (!grouped)
                      refuse("it splits a dimension that follows a length");
                    return grouped.value_or(Axes());
                  })
                  .Case<TransposeOp>([&](auto transpose) {
                    Axes moved;
                    for (int64_t from : transpose.getPermutation())
                      moved.push_back(axesOf(transpose.getOperand())[from]);
                    return moved;
                  })
                  .Case<SliceOp>([&](auto cut) { return slice(cut); })
                  .Case<ConcatOp>([&](auto pieces) { return concat(pieces); })
                  .Case<GatherOp>([&](auto lookUp) { return gather(lookUp); })
                  .Case<WindowOp>([&](auto windows) { return window(windows); })
                  .Case<ConstantOp>([&](auto value) { return constant(value); })
                  .Case<StateUpdateOp>([&](auto written) { return update(written); })
                  .Case<FusableOpInterface>([&](FusableOpInterface other) {
                    const bool byElement = other.getOpKind() == OpKind::Pointwise || isa<BroadcastOp>(op);
                    return byElement || isa<IotaOp>(op) ? aligned(op) : keepAll(op);
                  })
                  .Default([&](Operation *) {
                    refuse("lengths are not known to it");
                    return Axes();
                  });
  if (refusal.empty() && op->getNumResults() == 1 && !op->use_empty() && !probes.agree(op->getResult(0), axes))
    refuse("the sizes of its result do not follow the lengths as those of its operands do");
  if (!refusal.empty())
    return Error{ErrorCode::BadModel, nameOf(op) + ": " + refusal};
  if (replacement) {
    op->getResult(0).replaceAllUsesExcept(replacement, replacement.getDefiningOp());
    set(replacement, axes);
  }
  if (op->getNumResults() == 1)
    set(op->getResult(0), std::move(axes));
  return {};
}

//===- Masks -----------------------------------------------------------------------------------===//

/// Whether what does not count along `dim` is 0 where the rest counts.
bool LengthRules::isZeroPast(Value value, unsigned dim) const {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<SoftmaxOp>(op))
    return dim + 1 == dimsOf(value).size();
  if (isa_and_nonnull<CastOp>(op))
    return isZeroPast(op->getOperand(0), dim);
  if (auto reshape = dyn_cast_or_null<ReshapeOp>(op)) {
    const unsigned last = dimsOf(value).size() - 1, lastFrom = dimsOf(reshape.getOperand()).size() - 1;
    return dim == last && axesOf(reshape.getOperand()).size() == lastFrom + 1 &&
           axesOf(reshape.getOperand())[lastFrom] == axesOf(value)[last] && isZeroPast(reshape.getOperand(), lastFrom);
  }
  return false;
}

Value LengthRules::masked(Value value, unsigned dim, Attribute neutral) {
  const Axes axes(axesOf(value));
  Axes read;
  for (int64_t size : dimsOf(value))
    read.push_back(Axis::fixed(size));
  read[dim] = axes[dim];
  Value counts = math.counting(axes[dim], dim, dimsOf(value).size());
  Value result = math.where(counts, math.prefix(value, read), math.constant(neutral));
  set(result, axes);
  return result;
}

/// Masks what a product multiplies by 0 past a length, below what only moves it or repeats it: the values of heads that
/// share them once, where they are computed.
void LengthRules::maskFactor(MatmulOp product, unsigned number, unsigned dim) {
  OpOperand *use = &product->getOpOperand(number);
  const Axis axis = axesOf(use->get())[dim];
  auto isAxis = [&](const Axis &other) { return other == axis; };
  while (Operation *mover = use->get().getDefiningOp()) {
    const auto below =
        isa<ReshapeOp, TransposeOp, BroadcastOp>(mover) ? axesOf(mover->getOperand(0)) : llvm::ArrayRef<Axis>();
    if (!use->get().hasOneUse() || llvm::count_if(below, isAxis) != 1)
      break;
    dim = llvm::find_if(below, isAxis) - below.begin();
    use = &mover->getOpOperand(0);
  }
  math.before(use->getOwner());
  use->set(masked(use->get(), dim, numberOf(getElementTypeOrSelf(use->get()), 0)));
  math.before(product);
}

void LengthRules::maskOperand(Operation *op, unsigned operand, unsigned dim, Attribute neutral) {
  op->setOperand(operand, masked(op->getOperand(operand), dim, neutral));
}

Axes LengthRules::multiply(MatmulOp product) {
  const auto lhs = axesOf(product.getLhs()), rhs = axesOf(product.getRhs());
  if (lhs.size() < 2 || rhs.size() < 2)
    return keepAll(product);
  const unsigned k = lhs.size() - (product.getTransposeA() ? 2 : 1), m = 2 * lhs.size() - 3 - k;
  const unsigned kRight = rhs.size() - (product.getTransposeB() ? 1 : 2), n = 2 * rhs.size() - 3 - kRight;
  Axes result;
  const size_t rank = std::max(lhs.size(), rhs.size());
  for (size_t dim = 0; dim + 2 < rank; ++dim) { // Batches are aligned at the right.
    const Axis *axis = nullptr;
    for (auto operand : {lhs, rhs})
      if (dim + operand.size() >= rank && (!axis || axis->size() == 1))
        axis = &operand[dim + operand.size() - rank];
    result.push_back(*axis);
  }
  result.push_back(lhs[m]);
  result.push_back(rhs[n]);
  if (lhs[k].isFixed() && rhs[kRight].isFixed())
    return result;
  if (!(lhs[k] == rhs[kRight])) {
    refuse("it sums over dimensions that follow different lengths");
    return result;
  }
  // 0 times what does not count would be NaN where that is not finite: both are 0.
  if (!isZeroPast(product.getLhs(), k))
    maskFactor(product, 0, k);
  if (!isZeroPast(product.getRhs(), kRight))
    maskFactor(product, 1, kRight);
  return result;
}

Axes LengthRules::softmax(SoftmaxOp op) {
  const unsigned last = dimsOf(op).size() - 1;
  Axes axes(axesOf(op.getOperand()));
  if (!axes.empty() && !axes[last].isFixed())
    maskOperand(op, 0, last, lowestOf(getElementTypeOrSelf(op.getOperand())));
  return axes;
}

Axes LengthRules::reduce(ReduceOp reduction) {
  const Axes axes(axesOf(reduction.getOperand()));
  Axes left;
  bool followsLength = false;
  for (auto [dim, axis] : llvm::enumerate(axes)) {
    const bool isReduced = llvm::is_contained(reduction.getAxes(), static_cast<int64_t>(dim));
    followsLength |= isReduced && !axis.isFixed();
    if (!isReduced)
      left.push_back(axis);
  }
  if (!followsLength)
    return left;
  const StringRef function = reduction.getFunction();
  const Type type = getElementTypeOrSelf(reduction.getOperand());
  if (function == "mean") {
    replacement = meanOfLengths(reduction);
    return left;
  }
  const Attribute neutral = function == "sum"   ? numberOf(type, 0)
                            : function == "max" ? lowestOf(type)
                            : function == "min" ? highestOf(type)
                                                : Attribute();
  if (!neutral) {
    refuse("a reduction (" + function.str() + ") without a neutral element that is known");
    return {};
  }
  for (int64_t dim : reduction.getAxes())
    if (!axes[dim].isFixed())
      maskOperand(reduction, 0, dim, neutral);
  return left;
}

/// The sum in f32 of what counts, divided by how many there are.
Value LengthRules::meanOfLengths(ReduceOp reduction) {
  const Type type = getElementTypeOrSelf(reduction.getOperand()), f32 = math.ops().getF32Type();
  const Axes axes(axesOf(reduction.getOperand()));
  Value summed = math.cast(reduction.getOperand(), f32);
  set(summed, axes);
  Value count;
  for (int64_t dim : reduction.getAxes()) {
    if (!axes[dim].isFixed())
      summed = masked(summed, dim, numberOf(f32, 0));
    for (const Factor &factor : axes[dim].factors()) {
      Value length = math.length(factor);
      count = count ? math.make<MulOp>({count, length}) : length;
    }
  }
  Value sum =
      math.ops().create<ReduceOp>(math.where(), summed, math.ops().getStringAttr("sum"), reduction.getAxesAttr());
  const Value mean = math.make<DivOp>({sum, math.reshape(math.cast(count, f32), {1})});
  return math.reshape(math.cast(mean, type), dimsOf(reduction));
}

//===- Elements that stay where they are -------------------------------------------------------===//

/// Each dimension is that of an operand, as broadcasting aligns them, or follows a length by its size.
Axes LengthRules::aligned(Operation *op) {
  Axes result;
  const ArrayRef<int64_t> dims = dimsOf(op->getResult(0));
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const Axis *axis = nullptr;
    for (Value operand : op->getOperands()) {
      const auto axes = axesOf(operand);
      if (dim + axes.size() < dims.size())
        continue;
      const Axis &own = axes[dim + axes.size() - dims.size()];
      if (own.size() != dims[dim] && !own.isFixed())
        refuse("it takes pairs along a dimension that follows a length");
      if (own.size() != dims[dim] || own.size() == 1)
        continue;
      if (axis && !(*axis == own))
        refuse("it takes elements together that follow different lengths");
      axis = axis ? axis : &own;
    }
    if (axis) {
      result.push_back(*axis);
      continue;
    }
    std::optional<Axis> bySize = axisBySize(op->getResult(0), dim);
    if (!bySize)
      refuse("its dimension " + std::to_string(dim) + " does not grow evenly with one length");
    result.push_back(bySize.value_or(Axis::fixed(dims[dim])));
  }
  return result;
}

/// What mixes elements in its own way: norms along a fixed last dimension, and what follows no length at all.
Axes LengthRules::keepAll(Operation *op) {
  if (isa<LayerNormOp, RmsNormOp>(op)) {
    Axes axes(axesOf(op->getOperand(0)));
    if (!axes.empty() && !axes.back().isFixed())
      refuse("it normalises along a dimension that follows a length");
    return axes;
  }
  for (Value operand : op->getOperands())
    if (!isFixed(operand))
      refuse("an operand follows a length, which it does not know how to read");
  Axes fixed;
  for (int64_t size : dimsOf(op->getResult(0)))
    fixed.push_back(Axis::fixed(size));
  return fixed;
}

Axes LengthRules::window(WindowOp window) {
  const auto axes = axesOf(window.getOperand());
  const size_t outer = axes.size() - window.getKernel().size();
  Axes result(axes.take_front(outer));
  for (size_t dim = outer; dim < axes.size(); ++dim)
    if (!axes[dim].isFixed())
      refuse("windows slide along a dimension that follows a length");
  for (int64_t size : dimsOf(window).drop_front(outer))
    result.push_back(Axis::fixed(size));
  return result;
}

//===- Elements that move ----------------------------------------------------------------------===//

Axes LengthRules::slice(SliceOp slice) {
  const Axes from(axesOf(slice.getOperand()));
  Axes result;
  Value source = slice.getOperand();
  for (auto [dim, axis] : llvm::enumerate(from)) {
    const int64_t count = dimsOf(slice)[dim], stride = slice.getStrides()[dim];
    auto offsetIn = [dim = dim](Value there) { return there.getDefiningOp<SliceOp>().getOffsets()[dim]; };
    const std::optional<Factor> offset = probes.fit(slice.getResult(), offsetIn);
    const std::optional<Axis> to = axisBySize(slice.getResult(), dim);
    if (!offset) {
      refuse("where it begins does not grow evenly with one length");
      return result;
    }
    // A table of as many rows as the bound is cut at a length, too.
    const bool isWhole = offset->isFixed() && offset->size == 0 && stride == 1 && count == axis.size() &&
                         (!axis.isFixed() || (to && to->isFixed()));
    result.push_back(isWhole || !to ? axis : *to);
    if (isWhole || (axis.isFixed() && to && to->isFixed() && offset->isFixed()))
      continue;
    if (!to || axis.factors().size() > 1 || (!to->isFixed() && stride != 1)) {
      refuse("it cuts a dimension that follows a length in another way than into a piece of one");
      return result;
    }
    // At the shortest it has to end inside; both ends grow evenly.
    const Factor whole = axis.factors().empty() ? Factor{} : axis.factors()[0];
    const Factor piece = to->factors().empty() ? Factor{} : to->factors()[0];
    int follows = -1; // One length: of two that grow apart the least says nothing.
    bool isEven = offset->isFixed() || offset->times > 0;
    for (const Factor &one : {*offset, whole, piece}) {
      isEven &= one.isFixed() || follows < 0 || follows == one.dim;
      follows = one.isFixed() ? follows : one.dim;
    }
    if (!isEven) {
      refuse("it cuts a piece whose ends follow different lengths");
      return result;
    }
    if (probes.least(*offset) < 0 ||
        probes.least(*offset) + (probes.least(piece) - 1) * stride >= probes.least(whole)) {
      refuse("it reads element " + std::to_string(probes.least(*offset) + (probes.least(piece) - 1) * stride) +
             " of a dimension that may have " + std::to_string(probes.least(whole)) +
             "; give a range that starts higher");
      return result;
    }
    if (offset->isFixed())
      continue;
    // From the end: rows that the length says.
    Value index = math.iota(count);
    if (stride != 1)
      index = math.make<MulOp>({index, math.integer(stride)});
    index = math.make<AddOp>({index, math.length(*offset)});
    Axes cut(axesOf(source));
    cut[dim] = result.back();
    llvm::SmallVector<int64_t> shape(dimsOf(source));
    shape[dim] = count;
    auto type = RankedTensorType::get(shape, getElementTypeOrSelf(source));
    source = math.ops().create<GatherOp>(math.where(), type, source, index, static_cast<int64_t>(dim));
    set(source, std::move(cut));
    llvm::SmallVector<int64_t> offsets(slice.getOffsets()), strides(slice.getStrides());
    offsets[dim] = 0;
    strides[dim] = 1;
    slice.setOffsets(offsets);
    slice.setStrides(strides);
  }
  slice->setOperand(0, source);
  return result;
}

/// Pieces lie at the bounds of those before; what counts of them is moved together behind it.
Axes LengthRules::concat(ConcatOp concat) {
  const unsigned axis = concat.getAxis();
  Axes result(axesOf(concat.getOperand(0)));
  bool moves = false;
  for (auto [number, operand] : llvm::enumerate(concat.getOperands())) {
    const auto axes = axesOf(operand);
    for (unsigned dim = 0; dim < axes.size(); ++dim)
      if (dim != axis && !(axes[dim] == result[dim]))
        refuse("it joins what follows different lengths");
    moves |= !axes[axis].isFixed() && number + 1 < concat.getNumOperands();
    if (axes[axis].factors().size() > 1)
      refuse("it joins pieces along more than one length");
  }
  const std::optional<Axis> along = axisBySize(concat.getResult(), axis);
  if (!along) {
    refuse("what it joins does not grow evenly with one length");
    return result;
  }
  result[axis] = *along;
  if (!moves || !refusal.empty())
    return result;
  const Value index = math.iota(dimsOf(concat)[axis]);
  Value source = index, counted = math.integer(0);
  int64_t start = 0;
  for (Value operand : concat.getOperands()) {
    Value moved = math.make<AddOp>({math.make<SubOp>({index, counted}), math.integer(start)});
    source = math.where(math.make<GeOp>({index, counted}), moved, source);
    start += dimsOf(operand)[axis];
    const auto factors = axesOf(operand)[axis].factors();
    counted = math.make<AddOp>({counted, math.length(factors.empty() ? Factor{} : factors[0])});
  }
  math.ops().setInsertionPointAfter(concat);
  replacement = math.ops().create<GatherOp>(math.where(), concat.getType(), concat.getResult(), source, axis);
  return result;
}

/// What counts from the end counts from the length.
Axes LengthRules::gather(GatherOp gather) {
  const auto data = axesOf(gather.getData()), indices = axesOf(gather.getIndices());
  const int64_t axis = gather.getAxis();
  Axes result(data.take_front(axis));
  llvm::append_range(result, indices);
  llvm::append_range(result, data.drop_front(axis + 1));
  if (data[axis].isFixed())
    return result;
  if (data[axis].factors().size() != 1) {
    refuse("it looks up along more than one length");
    return result;
  }
  const Type type = getElementTypeOrSelf(gather.getIndices());
  const Value length = math.cast(math.length(data[axis].factors()[0]), type);
  const Value isNegative = math.make<LtOp>({gather.getIndices(), math.constant(numberOf(type, 0))});
  Value fromStart = math.where(isNegative, math.make<AddOp>({gather.getIndices(), length}), gather.getIndices());
  fromStart = math.make<MinOp>({fromStart, math.make<SubOp>({length, math.constant(numberOf(type, 1))})});
  gather->setOperand(1, math.reshape(fromStart, dimsOf(gather.getIndices())));
  return result;
}

} // namespace kfuse::passes
