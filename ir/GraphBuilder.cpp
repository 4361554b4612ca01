#include "kfuse/graph.h"

#include "ir/FirstError.h"
#include "ir/GraphModule.h"
#include "ir/dialect/Kfuse.h"
#include "kfuse/half.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

using namespace mlir;

namespace kfuse {
namespace {

std::shared_ptr<MLIRContext> makeContext() {
  auto context = std::make_shared<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<ir::KfuseDialect, func::FuncDialect>();
  return context;
}

} // namespace

std::string Graph::text() const {
  if (!impl)
    return "";
  std::string text;
  llvm::raw_string_ostream os(text);
  impl->module.get()->print(os);
  return text;
}

struct GraphBuilder::Impl {
  std::shared_ptr<MLIRContext> context = makeContext();
  OpBuilder builder{context.get()};
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context.get()));
  func::FuncOp main;
  std::vector<Value> values; ///< By Tensor::id.
  std::vector<NamedAttrList> argumentAttributes;
  struct Output {
    std::string name;
    Value value;
  };
  std::vector<Output> outputs;
  std::optional<Error> mistake;
  std::shared_ptr<const void> token =
      std::make_shared<char>(); ///< Tensors keep it, so that no other builder gets its address.

  Impl() {
    builder.setInsertionPointToStart(module->getBody());
    main = builder.create<func::FuncOp>(location(), "main", builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(main.addEntryBlock());
  }

  Location location() { return UnknownLoc::get(context.get()); }
  Block &body() { return main.getBody().front(); }

  /// Keeps the first mistake.
  Tensor fail(Error error) {
    if (!mistake)
      mistake = std::move(error);
    return {};
  }
  Tensor fail(const Twine &message) { return fail(Error{ErrorCode::Usage, message.str()}); }

  Tensor wrap(Value value) {
    Tensor tensor;
    tensor.owner = token;
    tensor.id = static_cast<int>(values.size());
    tensor.elementType = ir::dtypeOf(value.getType());
    tensor.dims = ir::shapeOf(value);
    values.push_back(value);
    return tensor;
  }

  /// Null, with the reason kept, when the tensor is none of this builder's.
  Value unwrap(const Tensor &tensor) {
    if (tensor.owner == token)
      return values[tensor.id];
    fail(tensor ? "a tensor of another GraphBuilder was given" : "an empty Tensor was given");
    return {};
  }

  /// Keeps the mistake where the shape is none of a tensor's.
  bool isShape(ArrayRef<std::int64_t> sizes) {
    // 2^48 elements are more than any machine holds, and their bytes do not overflow.
    constexpr std::int64_t most = std::int64_t{1} << 48;
    constexpr std::size_t mostDimensions = 16; // The limit of imported models.
    const Shape shape(sizes.begin(), sizes.end());
    if (llvm::any_of(shape, [](std::int64_t size) { return size < 1; }) || elementCount(shape) > most)
      fail("the shape [" + toString(shape) + "] must have sizes of at least 1 and fewer than 2^48 elements");
    else if (shape.size() > mostDimensions)
      fail("a shape of " + Twine(shape.size()) + " dimensions was given, expected at most " + Twine(mostDimensions));
    else
      return true;
    return false;
  }

  std::optional<RankedTensorType> typeOf(DType type, const Shape &shape) {
    if (type > lastDType) {
      fail("the element type " + Twine(static_cast<int>(type)) + " is no DType, which are 0 to " +
           Twine(static_cast<int>(lastDType)));
      return std::nullopt;
    }
    if (!isShape(shape))
      return std::nullopt;
    return RankedTensorType::get(shape, ir::elementTypeOf(type, context.get()));
  }

  Tensor argument(std::string_view name, DType type, const Shape &shape, StringRef role) {
    if (name.empty())
      return fail("an argument has no name; give it one");
    for (const NamedAttrList &other : argumentAttributes)
      if (mlir::cast<StringAttr>(other.get(ir::nameAttrName)).getValue() == StringRef(name))
        return fail("two arguments are named '" + StringRef(name) + "'");
    std::optional<RankedTensorType> tensorType = typeOf(type, shape);
    if (!tensorType)
      return {};
    NamedAttrList attributes;
    attributes.set(ir::nameAttrName, builder.getStringAttr(StringRef(name)));
    attributes.set(ir::roleAttrName, builder.getStringAttr(role));
    argumentAttributes.push_back(std::move(attributes));
    return wrap(body().addArgument(*tensorType, location()));
  }

  /// Adds an op of `state`, whose result has `type` or the type that `infer` finds.
  using InferType = llvm::function_ref<LogicalResult(OperationState &, SmallVectorImpl<Type> &)>;
  Tensor insert(OperationState state, ArrayRef<Tensor> operands, InferType infer) {
    for (const Tensor &operand : operands) {
      Value value = unwrap(operand);
      if (!value)
        return {};
      state.operands.push_back(value);
    }
    SmallVector<Type> types;
    ir::FirstError refusal(context.get());
    if (failed(infer(state, types)))
      return fail(refusal.message);
    for (Type type : types)
      if (!isShape(mlir::cast<RankedTensorType>(type).getShape()))
        return {};
    state.addTypes(types);
    Operation *op = builder.create(state);
    if (succeeded(verify(op)))
      return wrap(op->getResult(0));
    op->erase();
    return fail(refusal.message);
  }

  /// An op whose result type is given.
  template <class Op>
  Tensor explicitly(DType type, const Shape &shape, ArrayRef<Tensor> operands,
                    ArrayRef<NamedAttribute> attributes = {}) {
    std::optional<RankedTensorType> resultType = typeOf(type, shape);
    if (!resultType)
      return {};
    OperationState state(location(), Op::getOperationName());
    state.addAttributes(attributes);
    return insert(std::move(state), operands, [&](OperationState &, SmallVectorImpl<Type> &types) {
      types.push_back(*resultType);
      return success();
    });
  }

  /// An op whose result type follows from its operands.
  template <class Op> Tensor inferred(ArrayRef<Tensor> operands, ArrayRef<NamedAttribute> attributes = {}) {
    OperationState state(location(), Op::getOperationName());
    return insert(std::move(state), operands, [&](OperationState &state, SmallVectorImpl<Type> &types) {
      DictionaryAttr dictionary = builder.getDictionaryAttr(attributes);
      auto &properties = state.getOrAddProperties<typename Op::Properties>();
      if constexpr (!std::is_same_v<typename Op::Properties, EmptyProperties>)
        if (failed(Op::setPropertiesFromAttr(properties, dictionary, [&] { return emitError(state.location); })))
          return failure();
      return Op::inferReturnTypes(context.get(), state.location, state.operands, dictionary, &properties, {}, types);
    });
  }

  /// The bytes of a tensor of `type`; 8-bit floats saturate as their stores do.
  template <class Number> Attribute element(DType type, Number value) {
    Type mlirType = ir::elementTypeOf(type, context.get());
    if (!isFloat(type))
      return builder.getIntegerAttr(mlirType, static_cast<std::int64_t>(value));
    const double most = type == DType::F8E4M3   ? detail::e4m3.largest
                        : type == DType::F8E5M2 ? detail::e5m2.largest
                                                : INFINITY;
    return builder.getFloatAttr(mlirType, std::clamp(static_cast<double>(value), -most, most));
  }
  template <class Number> Tensor constant(std::span<const Number> values, DType type, const Shape &shape);

  NamedAttribute attribute(StringRef name, Attribute value) { return builder.getNamedAttr(name, value); }
  NamedAttribute numbers(StringRef name, ArrayRef<std::int64_t> value) {
    return attribute(name, builder.getDenseI64ArrayAttr(value));
  }
  NamedAttribute flag(StringRef name) { return attribute(name, builder.getUnitAttr()); }
  NamedAttribute segments(ArrayRef<std::int32_t> sizes) {
    return attribute("operandSegmentSizes", builder.getDenseI32ArrayAttr(sizes));
  }

  /// States that are updated but no output become one, under their own name.
  std::vector<Output> allOutputs() {
    std::vector<Output> all = outputs;
    for (ir::StateUpdateOp update : body().getOps<ir::StateUpdateOp>())
      if (update->use_empty() &&
          llvm::none_of(outputs, [&](const Output &output) { return output.value == update.getResult(); }))
        if (auto state = dyn_cast<BlockArgument>(update.getState()))
          all.push_back({argumentName(state).str(), update.getResult()});
    return all;
  }

  StringRef argumentName(BlockArgument argument) {
    return mlir::cast<StringAttr>(argumentAttributes[argument.getArgNumber()].get(ir::nameAttrName)).getValue();
  }

  NamedAttrList attributesOf(const Output &output) {
    NamedAttrList attributes;
    attributes.set(ir::nameAttrName, builder.getStringAttr(output.name));
    if (auto update = output.value.getDefiningOp<ir::StateUpdateOp>())
      if (auto state = dyn_cast<BlockArgument>(update.getState()))
        attributes.set(ir::stateAttrName, builder.getI64IntegerAttr(state.getArgNumber()));
    return attributes;
  }
};

GraphBuilder::GraphBuilder() : impl(std::make_unique<Impl>()) {}
GraphBuilder::GraphBuilder(GraphBuilder &&) noexcept = default;
GraphBuilder &GraphBuilder::operator=(GraphBuilder &&) noexcept = default;
GraphBuilder::~GraphBuilder() = default;

static Error movedFrom() {
  return {ErrorCode::Usage, "this GraphBuilder was moved from; build with the one it went to"};
}

GraphBuilder::Impl &GraphBuilder::use() {
  if (!impl) {
    impl = std::make_unique<Impl>();
    impl->mistake = movedFrom();
  }
  return *impl;
}

//===- Edges ---------------------------------------------------------------------------------===//

Tensor GraphBuilder::input(std::string_view name, DType type, const Shape &shape) {
  return use().argument(name, type, shape, "input");
}
Tensor GraphBuilder::parameter(std::string_view name, DType type, const Shape &shape) {
  return use().argument(name, type, shape, "parameter");
}
Tensor GraphBuilder::state(std::string_view name, DType type, const Shape &shape) {
  return use().argument(name, type, shape, "state");
}

void GraphBuilder::output(std::string_view name, const Tensor &value) {
  Value result = use().unwrap(value);
  if (!result)
    return;
  if (name.empty())
    use().fail("an output has no name; give it one");
  if (llvm::any_of(impl->outputs, [&](const Impl::Output &output) { return output.name == name; }))
    use().fail("two outputs are named '" + StringRef(name) + "'");
  impl->outputs.push_back({std::string(name), result});
}

//===- Generators ----------------------------------------------------------------------------===//

Tensor GraphBuilder::constant(double value, DType type, const Shape &shape) {
  return constant(std::span(&value, 1), type, shape);
}

template <class Number>
Tensor GraphBuilder::Impl::constant(std::span<const Number> values, DType type, const Shape &shape) {
  std::optional<RankedTensorType> tensorType = typeOf(type, shape);
  if (!tensorType)
    return {};
  if (values.size() != 1 && static_cast<std::int64_t>(values.size()) != tensorType->getNumElements())
    return fail("a constant of shape [" + toString(shape) + "] takes " + Twine(tensorType->getNumElements()) +
                " values or one, got " + Twine(values.size()));
  if (!values.data())
    return fail("the values of a constant are at a null pointer; give where they are");
  SmallVector<Attribute> elements;
  for (Number value : values) {
    if (!holds(type, static_cast<double>(value)) && (std::is_same_v<Number, double> || type != DType::I64))
      return fail("a constant of " + StringRef(kfuse::toString(type)) + " cannot hold " + Twine(std::to_string(value)) +
                  "; give a whole number of its range");
    elements.push_back(element(type, value));
  }
  return explicitly<ir::ConstantOp>(type, shape, {}, attribute("value", DenseElementsAttr::get(*tensorType, elements)));
}

Tensor GraphBuilder::constant(std::span<const double> values, DType type, const Shape &shape) {
  return use().constant(values, type, shape);
}

Tensor GraphBuilder::constant(std::span<const std::int64_t> values, DType type, const Shape &shape) {
  return use().constant(values, type, shape);
}

Tensor GraphBuilder::iota(DType type, const Shape &shape, int axis) {
  std::int64_t dim = axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis;
  return use().explicitly<ir::IotaOp>(type, shape, {}, use().attribute("dim", use().builder.getI64IntegerAttr(dim)));
}

//===- Pointwise and rows --------------------------------------------------------------------===//

Tensor GraphBuilder::pointwise(std::string_view op, std::span<const Tensor> operands) {
  OperationName name("kfuse." + std::string(op), use().context.get());
  const auto *inference = name.getInterface<InferTypeOpInterface>();
  // What needs attributes has a function of its own here.
  if (!inference || !name.hasInterface<ir::FusableOpInterface>() || !name.getAttributeNames().empty() ||
      operands.empty())
    return use().fail("'" + StringRef(op) + "' with " + Twine(operands.size()) + " operands is no pointwise op");
  return use().insert(OperationState(use().location(), name), ArrayRef(operands.data(), operands.size()),
                      [&](OperationState &state, SmallVectorImpl<Type> &types) {
                        return inference->inferReturnTypes(use().context.get(), state.location, state.operands,
                                                           DictionaryAttr(), OpaqueProperties(nullptr), {}, types);
                      });
}

Tensor GraphBuilder::cast(const Tensor &x, DType type) { return use().explicitly<ir::CastOp>(type, x.shape(), x); }

Tensor GraphBuilder::matmul(const Tensor &a, const Tensor &b, Transpose transpose, Precision precision) {
  SmallVector<NamedAttribute> attributes;
  if (transpose.a)
    attributes.push_back(use().flag("transpose_a"));
  if (transpose.b)
    attributes.push_back(use().flag("transpose_b"));
  if (precision == Precision::TF32)
    attributes.push_back(use().flag("tf32"));
  return use().inferred<ir::MatmulOp>({a, b}, attributes);
}

Tensor GraphBuilder::softmax(const Tensor &x) { return pointwise("softmax", {x}); }

Tensor GraphBuilder::layerNorm(const Tensor &x, const Tensor &weight, const Tensor &bias, float epsilon) {
  SmallVector<Tensor> operands{x};
  for (const Tensor &vector : {weight, bias})
    if (vector)
      operands.push_back(vector);
  return use().inferred<ir::LayerNormOp>(operands, {use().attribute("epsilon", use().builder.getF32FloatAttr(epsilon)),
                                                    use().segments({1, weight ? 1 : 0, bias ? 1 : 0})});
}

Tensor GraphBuilder::rmsNorm(const Tensor &x, const Tensor &weight, float epsilon) {
  SmallVector<Tensor> operands{x};
  if (weight)
    operands.push_back(weight);
  return use().inferred<ir::RmsNormOp>(operands, use().attribute("epsilon", use().builder.getF32FloatAttr(epsilon)));
}

Tensor GraphBuilder::dequantize(const Tensor &quantized, const Tensor &scales, const Tensor &zeros,
                                const Shape &blocks) {
  SmallVector<Tensor> operands{quantized, scales};
  if (zeros)
    operands.push_back(zeros);
  return use().inferred<ir::DequantizeOp>(operands, use().numbers("blocks", blocks));
}

Tensor GraphBuilder::rotary(const Tensor &x, const Tensor &cos, const Tensor &sin, bool interleaved) {
  SmallVector<NamedAttribute> attributes;
  if (interleaved)
    attributes.push_back(use().flag("interleaved"));
  return use().inferred<ir::RotaryOp>({x, cos, sin}, attributes);
}

/// An axis that may count from the end.
static std::int64_t fromFront(int axis, const Tensor &x) {
  return axis < 0 ? axis + static_cast<std::int64_t>(x.shape().size()) : axis;
}

Tensor GraphBuilder::reduce(std::string_view function, const Tensor &x, const std::vector<int> &axes) {
  SmallVector<std::int64_t> ascending;
  for (int axis : axes)
    ascending.push_back(fromFront(axis, x));
  llvm::sort(ascending);
  return use().inferred<ir::ReduceOp>({x},
                                      {use().attribute("function", use().builder.getStringAttr(StringRef(function))),
                                       use().numbers("axes", ascending)});
}

Tensor GraphBuilder::sameSequence(const Tensor &rowStarts, const Tensor &keyStarts, std::int64_t rows,
                                  std::int64_t keys, bool causal) {
  SmallVector<NamedAttribute> attributes;
  if (causal)
    attributes.push_back(use().flag("causal"));
  return use().explicitly<ir::SameSequenceOp>(DType::Bool, {rows, keys}, {rowStarts, keyStarts}, attributes);
}

//===- Layout and state ----------------------------------------------------------------------===//

Tensor GraphBuilder::reshape(const Tensor &x, Shape shape) {
  auto left = llvm::find(shape, -1);
  if (left != shape.end()) {
    *left = 1;
    std::int64_t known = elementCount(shape);
    *left = known > 0 ? elementCount(x.shape()) / known : 0;
  }
  return use().explicitly<ir::ReshapeOp>(x.type(), shape, x);
}

Tensor GraphBuilder::transpose(const Tensor &x, const std::vector<int> &permutation) {
  SmallVector<std::int64_t> order;
  Shape shape;
  for (int axis : permutation) {
    order.push_back(fromFront(axis, x));
    bool isDim = order.back() >= 0 && order.back() < static_cast<std::int64_t>(x.shape().size());
    shape.push_back(isDim ? x.shape()[order.back()] : 1); // The verifier names a dimension that is none.
  }
  return use().explicitly<ir::TransposeOp>(x.type(), shape, x, use().numbers("permutation", order));
}

Tensor GraphBuilder::broadcast(const Tensor &x, const Shape &shape) {
  return use().explicitly<ir::BroadcastOp>(x.type(), shape, x);
}

Tensor GraphBuilder::slice(const Tensor &x, const Shape &offsets, const Shape &sizes, const Shape &strides) {
  Shape ones(offsets.size(), 1);
  return use().explicitly<ir::SliceOp>(
      x.type(), sizes, x,
      {use().numbers("offsets", offsets), use().numbers("strides", strides.empty() ? ones : strides)});
}

Tensor GraphBuilder::concat(std::span<const Tensor> pieces, int axis) {
  if (pieces.empty())
    return use().fail("concat takes at least one tensor");
  Shape shape = pieces.front().shape();
  std::int64_t along = fromFront(axis, pieces.front());
  bool isDim = along >= 0 && along < static_cast<std::int64_t>(shape.size());
  for (const Tensor &piece : pieces.subspan(1))
    if (isDim && piece.shape().size() == shape.size())
      shape[along] += piece.shape()[along];
  return use().explicitly<ir::ConcatOp>(pieces.front().type(), shape, ArrayRef(pieces.data(), pieces.size()),
                                        use().attribute("axis", use().builder.getI64IntegerAttr(along)));
}

Tensor GraphBuilder::gather(const Tensor &data, const Tensor &indices, int axis) {
  std::int64_t along = fromFront(axis, data);
  Shape shape = data.shape();
  if (along >= 0 && along < static_cast<std::int64_t>(shape.size())) {
    auto replaced = shape.erase(shape.begin() + along);
    shape.insert(replaced, indices.shape().begin(), indices.shape().end());
  }
  return use().explicitly<ir::GatherOp>(data.type(), shape, {data, indices},
                                        use().attribute("axis", use().builder.getI64IntegerAttr(along)));
}

Tensor GraphBuilder::updateState(const Tensor &state, const Tensor &value, const Tensor &position, int axis) {
  return use().explicitly<ir::StateUpdateOp>(
      state.type(), state.shape(), {state, value, position},
      use().attribute("axis", use().builder.getI64IntegerAttr(fromFront(axis, state))));
}

//===- Build ---------------------------------------------------------------------------------===//

Result<Graph> GraphBuilder::build() const {
  if (!impl)
    return movedFrom();
  if (impl->mistake)
    return *impl->mistake;
  std::vector<Impl::Output> outputs = impl->allOutputs();
  if (outputs.empty())
    return Error{ErrorCode::Usage, "the graph has no output; name one with GraphBuilder::output"};

  auto graph = std::make_shared<Graph::Impl>();
  graph->context = impl->context;
  IRMapping mapping;
  graph->module = ModuleOp::create(impl->location());
  auto main = mlir::cast<func::FuncOp>(impl->builder.clone(*impl->main, mapping));
  main->remove();
  graph->module->push_back(main);

  SmallVector<Value> results;
  for (const Impl::Output &output : outputs)
    results.push_back(mapping.lookup(output.value));
  OpBuilder::atBlockEnd(&main.getBody().front()).create<func::ReturnOp>(impl->location(), results);
  main.setType(impl->builder.getFunctionType(main.getBody().getArgumentTypes(), ValueRange(results).getTypes()));
  for (auto [i, attributes] : llvm::enumerate(impl->argumentAttributes))
    main.setArgAttrs(i, attributes);
  for (auto [i, output] : llvm::enumerate(outputs))
    main.setResultAttrs(i, impl->attributesOf(output));

  ir::FirstError refusal(impl->context.get());
  if (failed(verify(*graph->module)))
    return Error{ErrorCode::Usage, refusal.message};
  return Graph(std::move(graph));
}

} // namespace kfuse
