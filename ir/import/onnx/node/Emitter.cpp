#include "ir/import/onnx/node/Emitter.h"

#include "ir/reference/Attributes.h"
#include "ir/reference/Evaluator.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

using namespace mlir;

namespace kfuse::ir::onnx {
namespace {

bool isEmpty(Type type) { return cast<RankedTensorType>(type).getNumElements() == 0; }

/// What a framework's torch.tensor([]) becomes, which may be joined with tensors of any rank.
bool isPlaceholder(Value value) { return dimsOf(value) == ArrayRef<int64_t>(0); }

/// The pieces without placeholders; one of them where there is nothing else.
SmallVector<Value> withoutPlaceholders(ArrayRef<Value> pieces) {
  SmallVector<Value> kept;
  llvm::copy_if(pieces, std::back_inserter(kept), [](Value piece) { return !isPlaceholder(piece); });
  if (kept.empty())
    kept.push_back(pieces.front());
  return kept;
}

/// Whether two shapes are the same outside `axis`.
bool fitsBeside(ArrayRef<int64_t> a, ArrayRef<int64_t> b, int64_t axis) {
  return a.size() == b.size() && a.take_front(axis) == b.take_front(axis) &&
         a.drop_front(axis + 1) == b.drop_front(axis + 1);
}

bool isConstant(Value value) { return value.getDefiningOp<ConstantOp>() != nullptr; }

} // namespace

std::string toString(ArrayRef<int64_t> dims) {
  return "[" + llvm::join(llvm::map_range(dims, [](int64_t size) { return std::to_string(size); }), ", ") + "]";
}

Ints counted(int64_t count) {
  return Ints(llvm::map_range(llvm::seq<int64_t>(0, count), [](int64_t i) { return i; }));
}

Emitter::Emitter(OpBuilder builder)
    : builder(builder), location(builder.getUnknownLoc()),
      diagnostics(builder.getContext(), [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          fail(diagnostic.str());
        return success();
      }) {}

Value Emitter::fail(const Twine &newReason) {
  if (reason.empty())
    reason = newReason.str();
  return {};
}

//===- Constants -----------------------------------------------------------------------------===//

Value Emitter::constant(const HostTensor &tensor) {
  if (!checkedElementCount(tensor.shape, tensor.type))
    return fail("a tensor of shape " + toString(tensor.shape) + " is too large");
  return builder.create<ConstantOp>(location, reference::attributeOf(tensor, context()));
}

Value Emitter::splat(HostTensor value, ArrayRef<int64_t> shape) {
  RankedTensorType type = tensorType(shape, elementTypeOf(value.type, context()));
  if (!type)
    return {};
  if (isEmpty(type))
    return constant(HostTensor::zeros(value.type, Shape(shape)));
  value.shape.clear();
  return builder.create<ConstantOp>(location, reference::attributeOf(value, context()).resizeSplat(type));
}

Value Emitter::splat(double value, DType type, ArrayRef<int64_t> shape) {
  return splat(reference::tensorOf(type, {}, {value}), shape);
}

Value Emitter::integers(ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({static_cast<int64_t>(values.size())}, builder.getI64Type());
  return builder.create<ConstantOp>(location, DenseElementsAttr::get(type, values));
}

std::optional<HostTensor> Emitter::constantOf(Value value) { return varies(value) ? std::nullopt : sizesOf(value); }

std::optional<Ints> Emitter::constantIntegers(Value value) {
  return varies(value) ? std::nullopt : sizeIntegers(value);
}

std::optional<HostTensor> Emitter::sizesOf(Value value) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  if (!constant)
    return std::nullopt;
  Result<HostTensor> tensor = reference::tensorOf(constant.getValue());
  return tensor ? std::optional(std::move(*tensor)) : std::nullopt;
}

std::optional<Ints> Emitter::sizeIntegers(Value value) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  auto elements = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  if (!elements || elements.getNumElements() > maxFoldedElements)
    return std::nullopt;
  return Ints(llvm::map_range(elements.getValues<APInt>(), [](const APInt &element) {
    return element.getBitWidth() == 1 ? static_cast<int64_t>(element.getZExtValue()) : element.getSExtValue();
  }));
}

//===- Ops -----------------------------------------------------------------------------------===//

RankedTensorType Emitter::tensorType(ArrayRef<int64_t> shape, Type element) {
  if (checkedElementCount(shape, dtypeOf(element)))
    return RankedTensorType::get(shape, element);
  fail("a tensor of shape " + toString(shape) +
       " is negative in size, larger than 1 TiB or of more than 16 dimensions");
  return {};
}

bool Emitter::areUsable(ValueRange operands) {
  return !failed() && llvm::all_of(operands, [](Value operand) { return static_cast<bool>(operand); });
}

Value Emitter::append(OperationState &state) {
  auto type = cast<RankedTensorType>(state.types.front());
  if (!tensorType(type.getShape(), type.getElementType()))
    return {};
  Operation *op = builder.create(state);
  if (mlir::failed(verify(op, /*verifyRecursively=*/false)) || failed()) {
    op->erase();
    return fail("its operands do not fit");
  }
  Value folded = fold(op);
  if (past && !failed() && !isEmpty(type))
    return appendBesidePast(op, folded);
  if (folded) {
    op->erase();
    return folded;
  }
  if (llvm::any_of(op->getOperandTypes(), isEmpty))
    return fail("a tensor without elements can only be part of shape arithmetic or of a Concat");
  return op->getResult(0);
}

/// The same where sizes are known that are others at run time.
Value Emitter::appendBesidePast(Operation *op, Value folded) {
  if (auto softmax = dyn_cast<SoftmaxOp>(op); softmax && !folded)
    hideStaleRows(softmax);
  const std::string refusal = past->follow(op, folded ? folded : op->getResult(0));
  const bool isVarying = llvm::any_of(op->getOperands(), varies);
  const bool isKnown = !isVarying || takeRunTimeOperands(op);
  if (llvm::any_of(op->getOperandTypes(), isEmpty) && !folded)
    return fail("a tensor without elements can only be part of shape arithmetic or of a Concat");
  if (!refusal.empty())
    return fail(refusal + "; without --state for the cache it has one length");
  if (folded && isVarying)
    past->setVarying(folded, isKnown ? op->getResult(0) : Value());
  if (!isKnown || (folded && !isVarying))
    op->erase();
  if (folded)
    return folded;
  return isKnown
             ? op->getResult(0)
             : fail("it computes with a size that depends on the past's length in a way that kfuse does not follow");
}

bool Emitter::takeRunTimeOperands(Operation *op) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!varies(operand.get()))
      continue;
    Value atRunTime = past->atRunTime(operand.get());
    if (!atRunTime)
      return false;
    operand.set(atRunTime);
  }
  return true;
}

void Emitter::hideStaleRows(SoftmaxOp softmax) {
  Value scores = softmax.getOperand();
  const unsigned last = dimsOf(scores).size() - 1;
  if (!past->countsPresent(scores, last))
    return;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(softmax);
  if (!isPresent) {
    Value lastRow = past->count == 1 ? past->length : add(past->length, static_cast<double>(past->count - 1));
    isPresent = binary<LeOp>(iota(past->capacity, 0), lastRow);
  }
  softmax->setOperand(0, where(isPresent, scores, scalarLike(scores, -std::numeric_limits<double>::infinity())));
}

Value Emitter::fold(Operation *op) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (isEmpty(type)) // Nothing to know, as in the empty piece of a Split that the next Concat drops.
    return splat(0, dtypeOf(type), type.getShape());
  if (op->getNumOperands() == 0 || !llvm::all_of(op->getOperands(), isConstant))
    return {};
  int64_t work = 0;
  for (Type operand : op->getOperandTypes())
    work = std::max(work, isEmpty(operand) ? maxFoldedElements + 1 : cast<RankedTensorType>(operand).getNumElements());
  if (std::max(work, type.getNumElements()) > maxFoldedElements || type.getNumElements() > foldBudget)
    return {};

  SmallVector<HostTensor, 3> operands;
  for (Value operand : op->getOperands())
    operands.push_back(*sizesOf(operand));
  Result<HostTensor> value = reference::evaluateOp(op, operands);
  if (!value)
    return fail(value.error().message);
  foldBudget -= type.getNumElements();
  return constant(*value);
}

Value Emitter::where(Value condition, Value then, Value otherwise) {
  return make<WhereOp>({condition, then, otherwise});
}

template <class Op>
Value Emitter::makeTyped(ValueRange operands, ArrayRef<int64_t> shape, Attributes attributes, Type element) {
  if (!areUsable(operands))
    return {};
  RankedTensorType type = tensorType(shape, element ? element : getElementTypeOrSelf(operands.front()));
  if (!type)
    return {};
  OperationState state(location, Op::getOperationName(), operands, type);
  for (auto [name, value] : attributes)
    state.addAttribute(name, value);
  return append(state);
}

Value Emitter::cast(Value x, DType type) {
  if (!x || dtypeOf(x.getType()) == type)
    return x;
  if (type == DType::Bool)
    return binary<NeOp>(x, scalarLike(x, 0));
  return makeTyped<CastOp>(x, dimsOf(x), {}, elementTypeOf(type, context()));
}

Value Emitter::dequantize(Value quantised, Value scales, Value zeros, ArrayRef<int64_t> blocks) {
  SmallVector<Value, 3> operands{quantised, scales};
  if (zeros)
    operands.push_back(zeros);
  DequantizeOp::Properties properties;
  properties.blocks = builder.getDenseI64ArrayAttr(blocks);
  return make<DequantizeOp>(operands, properties);
}

Value Emitter::matmul(Value a, Value b, bool transposeA, bool transposeB) {
  MatmulOp::Properties properties;
  properties.transpose_a = transposeA ? builder.getUnitAttr() : UnitAttr();
  properties.transpose_b = transposeB ? builder.getUnitAttr() : UnitAttr();
  return make<MatmulOp>({a, b}, properties);
}

Value Emitter::reduce(Value x, StringRef function, ArrayRef<int64_t> axes) {
  ReduceOp::Properties properties;
  properties.function = builder.getStringAttr(function);
  properties.axes = builder.getDenseI64ArrayAttr(axes);
  return axes.empty() ? x : make<ReduceOp>(x, properties);
}

Value Emitter::reduceKeepingDims(Value x, StringRef function, ArrayRef<int64_t> axes) {
  Value reduced = reduce(x, function, axes);
  if (!reduced)
    return {};
  Ints shape(dimsOf(x));
  for (int64_t axis : axes)
    shape[axis] = 1;
  return reshape(reduced, shape);
}

Value Emitter::layerNorm(Value x, Value weight, Value bias, double epsilon) {
  SmallVector<Value, 3> operands{x};
  if (weight)
    operands.push_back(weight);
  if (bias)
    operands.push_back(bias);
  LayerNormOp::Properties properties;
  properties.epsilon = builder.getF32FloatAttr(static_cast<float>(epsilon));
  properties.operandSegmentSizes = {1, weight ? 1 : 0, bias ? 1 : 0};
  return make<LayerNormOp>(operands, properties);
}

Value Emitter::rmsNorm(Value x, Value weight, double epsilon) {
  RmsNormOp::Properties properties;
  properties.epsilon = builder.getF32FloatAttr(static_cast<float>(epsilon));
  return weight ? make<RmsNormOp>({x, weight}, properties) : make<RmsNormOp>(x, properties);
}

Value Emitter::rotary(Value x, Value cos, Value sin, bool interleaved) {
  RotaryOp::Properties properties;
  properties.interleaved = interleaved ? builder.getUnitAttr() : UnitAttr();
  return make<RotaryOp>({x, cos, sin}, properties);
}

//===- Layout --------------------------------------------------------------------------------===//

Value Emitter::reshape(Value x, ArrayRef<int64_t> shape) {
  return x && dimsOf(x) == shape ? x : makeTyped<ReshapeOp>(x, shape);
}

Value Emitter::transpose(Value x, ArrayRef<int64_t> permutation) {
  if (!x || permutation == ArrayRef(counted(dimsOf(x).size())))
    return x;
  Ints shape;
  for (int64_t dim : permutation) {
    if (dim < 0 || dim >= static_cast<int64_t>(dimsOf(x).size()))
      return fail("permutation " + toString(permutation) + " of a tensor of shape " + toString(dimsOf(x)));
    shape.push_back(dimsOf(x)[dim]);
  }
  // Caches are written through a transpose and its inverse (index_put of dynamo): the result is the cache's own order.
  if (auto first = x.getDefiningOp<TransposeOp>()) {
    auto undoes = [&](auto dim) { return first.getPermutation()[dim.value()] == static_cast<int64_t>(dim.index()); };
    if (llvm::all_of(llvm::enumerate(permutation), undoes))
      return first.getOperand();
  }
  return makeTyped<TransposeOp>(x, shape, {{"permutation", builder.getDenseI64ArrayAttr(permutation)}});
}

Value Emitter::broadcast(Value x, ArrayRef<int64_t> shape) {
  return x && dimsOf(x) == shape ? x : makeTyped<BroadcastOp>(x, shape);
}

Value Emitter::slice(Value x, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  auto isOne = [](int64_t stride) { return stride == 1; };
  if (!x || (dimsOf(x) == sizes && llvm::all_of(strides, isOne)))
    return x;
  return makeTyped<SliceOp>(
      x, sizes,
      {{"offsets", builder.getDenseI64ArrayAttr(offsets)}, {"strides", builder.getDenseI64ArrayAttr(strides)}});
}

Value Emitter::slice(Value x, int64_t axis, int64_t offset, int64_t size) {
  if (!x)
    return {};
  Ints sizes(dimsOf(x)), offsets(sizes.size(), 0), strides(sizes.size(), 1);
  offsets[axis] = offset;
  sizes[axis] = size;
  return slice(x, offsets, sizes, strides);
}

Value Emitter::concat(ArrayRef<Value> pieces, int64_t axis) {
  if (!areUsable(pieces))
    return {};
  if (CachedPast::State *state = past ? past->stateOf(pieces.front()) : nullptr; state && pieces.size() == 2)
    return join(*state, pieces.back(), axis);
  SmallVector<Value> joined = withoutPlaceholders(pieces);
  Ints shape(dimsOf(joined.front()));
  if (axis >= static_cast<int64_t>(shape.size()))
    return fail("joins along axis " + Twine(axis) + " of " + toString(shape));
  for (Value piece : ArrayRef(joined).drop_front()) {
    if (!fitsBeside(dimsOf(piece), shape, axis) || shape[axis] > maxTensorBytes)
      return fail("joins " + toString(dimsOf(piece)) + " to " + toString(dimsOf(joined.front())));
    shape[axis] += dimsOf(piece)[axis];
  }
  if (llvm::is_contained(shape, 0))
    return splat(0, dtypeOf(joined.front().getType()), shape);
  // An empty cache, or an empty piece of a shape, has a shape to keep and nothing to copy.
  llvm::erase_if(joined, [](Value piece) { return isEmpty(piece.getType()); });
  if (joined.size() == 1)
    return joined.front();
  return makeTyped<ConcatOp>(joined, shape, {{"axis", builder.getI64IntegerAttr(axis)}});
}

Value Emitter::gather(Value data, Value indices, int64_t axis) {
  if (!areUsable({data, indices}))
    return {};
  Ints shape(dimsOf(data).take_front(axis));
  llvm::append_range(shape, dimsOf(indices));
  llvm::append_range(shape, dimsOf(data).drop_front(axis + 1));
  return makeTyped<GatherOp>({data, indices}, shape, {{"axis", builder.getI64IntegerAttr(axis)}});
}

Value Emitter::window(Value x, ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides, ArrayRef<int64_t> dilations,
                      ArrayRef<int64_t> pads, ArrayRef<int64_t> counts) {
  if (!x)
    return {};
  Ints shape(dimsOf(x).drop_back(kernel.size()));
  shape.append(kernel.begin(), kernel.end());
  shape.append(counts.begin(), counts.end());
  return makeTyped<WindowOp>(x, shape,
                             {{"kernel", builder.getDenseI64ArrayAttr(kernel)},
                              {"strides", builder.getDenseI64ArrayAttr(strides)},
                              {"dilations", builder.getDenseI64ArrayAttr(dilations)},
                              {"pads", builder.getDenseI64ArrayAttr(pads)}});
}

Value Emitter::iota(ArrayRef<int64_t> shape, int64_t dim, DType type) {
  RankedTensorType tensor = tensorType(shape, elementTypeOf(type, context()));
  if (!tensor || failed())
    return {};
  return builder.create<IotaOp>(location, tensor, builder.getI64IntegerAttr(dim));
}

Value Emitter::updateRows(Value state, Value rows, Value position, int64_t axis) {
  if (!areUsable({state, rows, position}))
    return {};
  if (!fitsBeside(dimsOf(rows), dimsOf(state), axis) || dimsOf(rows)[axis] > dimsOf(state)[axis] ||
      getElementTypeOrSelf(rows) != getElementTypeOrSelf(state))
    return fail("writes " + toString(dimsOf(rows)) + " along axis " + Twine(axis) + " of a cache of " +
                toString(dimsOf(state)));
  return builder.create<StateUpdateOp>(location, state.getType(), state, rows, position,
                                       builder.getI64IntegerAttr(axis));
}

//===- Caches in place -----------------------------------------------------------------------===//

void Emitter::keepPast(int64_t capacity, int64_t count, Value length) {
  past.emplace(capacity, count, length);
  presentLength = add(length, static_cast<double>(count));
}

Value Emitter::pastOf(BlockArgument state, int64_t axis) {
  Ints shape(dimsOf(state)), offsets(shape.size(), 0), strides(shape.size(), 1);
  shape[axis] = past->past();
  RankedTensorType type = tensorType(shape, getElementTypeOrSelf(state));
  if (!type)
    return {};
  Value view = builder.create<SliceOp>(location, type, state, builder.getDenseI64ArrayAttr(offsets),
                                       builder.getDenseI64ArrayAttr(strides));
  past->addState(view, {.memory = state, .axis = axis, .present = {}});
  return view;
}

Value Emitter::join(CachedPast::State &state, Value rows, int64_t axis) {
  ArrayRef<int64_t> memory = dimsOf(state.memory);
  if (axis != state.axis || !fitsBeside(dimsOf(rows), memory, axis) ||
      getElementTypeOrSelf(rows) != getElementTypeOrSelf(state.memory))
    return fail("joins " + toString(dimsOf(rows)) + " along axis " + Twine(axis) + " to a cache of " +
                toString(memory));
  if (dimsOf(rows)[axis] != past->count) {
    past->otherCount = dimsOf(rows)[axis];
    return fail("joins " + Twine(past->otherCount) + " rows to a cache where others join " + Twine(past->count));
  }
  if (state.present)
    return fail("joins rows to a past that others are joined to already");
  state.present = updateRows(state.memory, rows, past->length, axis);
  past->setRows(state.present, {.counting = 1U << axis, .stale = 1U << axis});
  return state.present;
}

Value Emitter::sizes(Value x, int64_t start, int64_t end) {
  Value known = integers(dimsOf(x).slice(start, std::max<int64_t>(end - start, 0)));
  if (!past || !past->rowsOf(x).any() || end <= start)
    return known;
  SmallVector<Value> atRunTime;
  bool differs = past->rowsOf(x).areMixed;
  for (int64_t dim = start; dim < end; ++dim) {
    Value length = past->countsPresent(x, dim) ? presentLength : past->countsPast(x, dim) ? past->length : Value();
    differs |= static_cast<bool>(length);
    atRunTime.push_back(length ? reshape(length, 1) : integers(dimsOf(x)[dim]));
  }
  if (differs)
    past->setVarying(known, past->rowsOf(x).areMixed ? Value() : concat(atRunTime, 0));
  return known;
}

Value Emitter::countingRows(Value x) {
  if (!past || !x)
    return x;
  CacheRows rows = past->rowsOf(x);
  for (unsigned dim = 0; dim < dimsOf(x).size(); ++dim)
    rows.counting |= dimsOf(x)[dim] == past->capacity ? 1U << dim : 0;
  past->setRows(x, rows);
  return x;
}

} // namespace kfuse::ir::onnx
