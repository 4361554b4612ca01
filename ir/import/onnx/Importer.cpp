#include "ir/import/onnx/Importer.h"

#include "ir/dialect/Kfuse.h"
#include "ir/import/onnx/Ops.h"
#include "ir/import/onnx/Refusals.h"
#include "ir/import/onnx/ValueUses.h"
#include "ir/import/onnx/file/InputShapes.h"

#include "mlir/IR/Verifier.h"

using mlir::Value;

namespace kfuse::ir::onnx {

using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

namespace {

Error malformed(std::string message) { return {ErrorCode::BadModel, std::move(message)}; }

Result<void> checkAttributes(const NodeProto &node, const OnnxOp &op) {
  llvm::SmallVector<llvm::StringRef> known;
  op.attributes.split(known, ' ');
  for (const ::onnx::AttributeProto &attribute : node.attribute())
    if (!llvm::is_contained(known, attribute.name()))
      return malformed("node '" + labelOf(node) + "' (" + fullNameOf(node) + ") has the attribute '" +
                       attribute.name() + "', which kfuse does not know");
  return {};
}

/// Whether floats are a mask: [..., rows, keys] of 0 and one other number. No matrix of weights is.
bool isMask(const ParameterData &data) {
  constexpr int64_t mostElements = 1 << 24;
  const size_t rank = data.shape.size(), width = byteWidth(data.type);
  if (rank < 2 || data.shape[rank - 1] < 2 || data.shape[rank - 2] < 2 || elementCount(data.shape) > mostElements)
    return false;
  const std::byte *other = nullptr;
  bool hasZero = false;
  for (const std::byte *at = data.bytes.data(), *end = at + data.bytes.size(); at != end; at += width) {
    const bool isZero = std::all_of(at, at + width, [](std::byte byte) { return byte == std::byte{}; });
    hasZero |= isZero;
    if (!isZero && other && !std::equal(at, at + width, other))
      return false;
    if (!isZero)
      other = at;
  }
  return hasZero && other != nullptr;
}

} // namespace

Importer::Importer(const std::shared_ptr<const ModelProto> &model, DataFolders folders, const GrowingCaches &growing,
                   mlir::MLIRContext &context)
    : context(context), proto(model), graph(model->graph()), tensors(model, std::move(folders)), growing(growing) {
  context.loadDialect<KfuseDialect, mlir::func::FuncDialect>();
  mlir::OpBuilder builder(&context);
  mlir::Location location = builder.getUnknownLoc();
  this->model.module = mlir::ModuleOp::create(location);
  main = mlir::func::FuncOp::create(location, "main", builder.getFunctionType({}, {}));
  this->model.module->push_back(main);
  emit.emplace(mlir::OpBuilder::atBlockEnd(main.addEntryBlock()));
}

Result<Model> Importer::run(const ImportOptions &options, std::int64_t count) {
  if (Result<void> inputs = declareInputs(options, count); !inputs)
    return inputs.error();
  if (Result<void> initializers = declareInitializers(graph); !initializers)
    return initializers.error();
  for (const NodeProto &node : graph.node())
    if (Result<void> added = addNode(node); !added)
      return added.error();
  if (Result<void> finished = finish(); !finished)
    return finished.error();
  return std::move(model);
}

Value Importer::addArgument(const TensorDesc &desc, llvm::StringRef role) {
  mlir::NamedAttribute attributes[] = {{mlir::StringAttr::get(&context, roleAttrName), text(role)},
                                       {mlir::StringAttr::get(&context, nameAttrName), text(desc.name)}};
  argumentNames.insert(desc.name);
  argumentAttributes.push_back(mlir::DictionaryAttr::get(&context, attributes));
  auto type = mlir::RankedTensorType::get(desc.shape, elementTypeOf(desc.type, &context));
  return main.front().addArgument(type, mlir::NameLoc::get(mlir::StringAttr::get(&context, desc.name)));
}

Result<void> Importer::declareInputs(const ImportOptions &options, std::int64_t count) {
  // Files of an old version list their initializers among the inputs.
  llvm::StringSet<> initialized;
  for (const TensorProto &initializer : graph.initializer())
    initialized.insert(initializer.name());
  std::vector<const ValueInfoProto *> inputs;
  for (const ValueInfoProto &input : graph.input())
    if (!initialized.contains(input.name()))
      inputs.push_back(&input);

  std::map<std::string, Shape> given = options.shapes;
  for (const GrowingCache &cache : growing.caches) // How many rows it has is not for --shape to say.
    if (auto shape = given.find(cache.past); shape != given.end() && cache.axis < std::ssize(shape->second))
      shape->second[cache.axis] = growing.capacity - count;
  Result<InputShapes> bound = bindInputShapes(inputs, given, options.sizes);
  if (!bound)
    return bound.error();
  symbols = std::move(bound->symbols);
  for (const TensorDesc &desc : bound->inputs)
    if (!growing.of(desc.name))
      if (Result<void> defined = names.define(desc.name, addArgument(desc, "input")); !defined)
        return defined;
  return growing.capacity == 0 ? Result<void>() : declareCaches(bound->inputs, count);
}

/// States with room for all rows, and the length of their past as one more input.
Result<void> Importer::declareCaches(const std::vector<TensorDesc> &inputs, std::int64_t count) {
  auto isTaken = [&](const std::string &name) {
    return names.contains(name) || growing.of(name) ||
           llvm::any_of(graph.initializer(), [&](const TensorProto &tensor) { return tensor.name() == name; });
  };
  std::string lengthName = "past_length";
  for (int i = 2; isTaken(lengthName); ++i)
    lengthName = "past_length_" + std::to_string(i);
  model.pastLength = {lengthName, growing.capacity - count};
  emit->keepPast(growing.capacity, count, addArgument({lengthName, DType::I64, {}}, "input"));
  for (const TensorDesc &desc : inputs) {
    const GrowingCache *cache = growing.of(desc.name);
    if (!cache)
      continue;
    TensorDesc state = desc;
    state.shape[cache->axis] = growing.capacity;
    Value view = emit->pastOf(mlir::cast<mlir::BlockArgument>(addArgument(state, "state")), cache->axis);
    if (!view)
      return malformed("input '" + desc.name + "': " + emit->failure());
    if (Result<void> defined = names.define(desc.name, view); !defined)
      return defined;
    model.states.push_back({cache->past, cache->present, true,
                            "rows are written at " + lengthName + " along axis " + std::to_string(cache->axis) +
                                ", with room for " + std::to_string(growing.capacity)});
  }
  // A mask of the present's length has the capacity's, with zeros behind the present.
  for (const ValueInfoProto &input : graph.input()) {
    Value value = names.lookup(input.name());
    CacheRows rows;
    for (auto [i, dim] : llvm::enumerate(input.type().tensor_type().shape().dim())) {
      const bool isNamed = llvm::any_of(growing.dimensions, [&, i = i](const GrowingCaches::Dimension &dimension) {
        return graph.input(dimension.input).name() == input.name() && dimension.dim == static_cast<int>(i);
      });
      if (!value || growing.of(input.name()) || (dim.has_dim_value() && !isNamed))
        continue;
      const bool isOfPresent = dimsOf(value)[i] == growing.capacity;
      rows.counting |= isOfPresent || isNamed ? 1U << i : 0;
      rows.zero |= isOfPresent ? 1U << i : 0;
    }
    emit->cachedPast()->setRows(value, rows);
  }
  return {};
}

/// A past is read by nothing but what joins new rows to it.
Result<void> Importer::checkCaches() {
  for (const GrowingCache &cache : growing.caches) {
    Value view = names.lookup(cache.past);
    CachedPast::State *state = emit->cachedPast()->stateOf(view);
    if (!view.use_empty()) {
      mlir::Operation *reader = *view.user_begin();
      auto name = reader->getLoc()->findInstanceOf<mlir::NameLoc>();
      return malformed("input '" + cache.past + "' is read by node '" + (name ? name.getName().str() : "") +
                       "' besides the one that joins rows to it, and so is not kept in place; load it without --state");
    }
    if (!state->present || names.lookup(cache.present) != state->present)
      return malformed("output '" + cache.present + "' is not input '" + cache.past +
                       "' with rows joined to it, and so is not kept in place; load it without --state");
    view.getDefiningOp()->erase();
  }
  return {};
}

/// What only shapes have asked for.
void Importer::eraseUnused() {
  for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
    if (op.use_empty() && !mlir::isa<mlir::func::ReturnOp>(op) &&
        (op.getNumResults() == 0 || !emit->cachedPast()->stateOf(op.getResult(0))))
      op.erase();
}

Result<void> Importer::declareInitializers(const ::onnx::GraphProto &graph) {
  if (graph.sparse_initializer_size() > 0)
    return malformed("the model holds sparse initializers; export it with dense ones");
  llvm::StringSet<> used;
  addNamesRead(graph, used, numbers);
  for (const TensorProto &initializer : graph.initializer())
    if (used.contains(initializer.name()))
      if (Result<void> added = addInitializer(initializer); !added)
        return added;
  return {};
}

Result<void> Importer::addInitializer(const TensorProto &initializer) {
  if (auto known = innerInitializers.find(&initializer); known != innerInitializers.end())
    return names.define(initializer.name(), known->second);
  if (!names.isInsideNode() && names.contains(initializer.name()))
    return names.define(initializer.name(), {}); // Says so.
  Result<Value> value = valueOf(initializer);
  if (!value)
    return value.error();
  if (names.isInsideNode())
    innerInitializers[&initializer] = *value;
  return names.define(initializer.name(), *value);
}

/// The argument's name, whose data the file has; "" for other values.
std::string Importer::storedName(Value value) const {
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(value);
  std::string name;
  if (argument)
    name = mlir::cast<mlir::StringAttr>(argumentAttributes[argument.getArgNumber()].get(nameAttrName)).str();
  return model.parameters.contains(name) ? name : "";
}

/// A body's nodes may be imported several times.
bool Importer::isConvertible(Value value) const {
  const std::string name = storedName(value);
  return !name.empty() && !names.isInsideNode() && value.use_empty() && !forms.contains(value) &&
         usesOf(graph, name) == 1;
}

Value Importer::converted(Value value, const std::string &form, const Conversion &convert) {
  if (std::optional<HostTensor> constant = Emitter::constantOf(value))
    return emit->constant(toHost(convert({constant->type, constant->shape, constant->bytes, nullptr})));
  const std::string name = storedName(value);
  auto parameter = model.parameters.find(name);
  if (parameter == model.parameters.end())
    return emit->fail("its packed integers are no initializer of the file");
  std::string &known = forms[value];
  if (known.empty() && value.use_empty()) {
    known = form;
    parameter->second = convert(parameter->second);
    value.setType(
        mlir::RankedTensorType::get(parameter->second.shape, elementTypeOf(parameter->second.type, &context)));
  }
  if (known != form)
    return emit->fail("'" + name + "' holds integers of " + form + ", and is read otherwise, too");
  return value;
}

/// Weights become parameters; indices, shapes, single numbers and what an op must know are part of the graph.
Result<Value> Importer::valueOf(const TensorProto &initializer) {
  Result<ParameterData> data = tensors.read(initializer);
  if (!data)
    return data.error();
  const bool isWeight = smallInteger(data->type) || (isFloat(data->type) && !isMask(*data));
  if (!isWeight || elementCount(data->shape) <= 1 ||
      (numbers.contains(initializer.name()) && elementCount(data->shape) <= maxFoldedElements))
    return emit->constant(toHost(*data));
  // Two branches may use one name.
  std::string name = initializer.name();
  for (int i = 2; names.isInsideNode() && !argumentNames.insert(name).second; ++i)
    name = initializer.name() + "#" + std::to_string(i);
  Value argument = addArgument({name, data->type, data->shape}, "parameter");
  model.parameters.emplace(name, std::move(*data));
  return argument;
}

Result<llvm::SmallVector<Value>> Importer::operandsOf(const NodeProto &node, const OnnxOp &op) {
  std::string where = "node '" + labelOf(node) + "' (" + fullNameOf(node) + ") ";
  unsigned count = node.input_size();
  while (count > 0 && node.input(static_cast<int>(count) - 1).empty()) // Trailing optional inputs.
    --count;
  std::string most = op.maxInputs == anyNumber      ? " or more"
                     : op.maxInputs == op.minInputs ? ""
                                                    : " to " + std::to_string(op.maxInputs);
  if (count < op.minInputs || count > op.maxInputs)
    return malformed(where + "has " + std::to_string(count) + " inputs; kfuse knows the op with " +
                     std::to_string(op.minInputs) + most);
  llvm::SmallVector<Value> operands;
  for (unsigned i = 0; i < count; ++i) {
    const std::string &name = node.input(static_cast<int>(i));
    bool isRequired = i < op.minInputs || (op.maxInputs == anyNumber && op.minInputs > 0);
    if (name.empty() && isRequired)
      return malformed(where + "lacks its input " + std::to_string(i));
    Result<Value> value = name.empty() ? Result<Value>(Value()) : names.read(name, where);
    if (!value)
      return value.error();
    operands.push_back(*value);
  }
  return operands;
}

Result<void> Importer::addNode(const NodeProto &proto) {
  const OnnxOp &op = *findOp(proto);
  std::string where = "node '" + labelOf(proto) + "' (" + fullNameOf(proto) + ")";
  if (Result<void> known = checkAttributes(proto, op); !known)
    return known;
  Result<llvm::SmallVector<Value>> operands = operandsOf(proto, op);
  if (!operands)
    return operands.error();
  emit->at(mlir::NameLoc::get(mlir::StringAttr::get(&context, labelOf(proto))));
  Node node(proto, *operands, *emit, tensors, *this);
  Values results = op.import(node);
  if (innerError)
    return *innerError;
  if (emit->failed() || !results.front())
    return malformed(where + ": " + (emit->failed() ? emit->failure() : "its operands do not fit"));
  for (int i = 0; i < proto.output_size(); ++i) {
    const std::string &name = proto.output(i);
    if (name.empty())
      continue;
    Value value = i < static_cast<int>(results.size()) ? results[i] : Value();
    if (!value)
      names.setMissing(name, where);
    else if (Result<void> defined = names.define(name, value); !defined)
      return defined;
  }
  return {};
}

std::optional<Ints> Importer::declaredShape(llvm::StringRef value) const {
  for (const auto *infos : {&graph.output(), &graph.value_info()})
    for (const ValueInfoProto &info : *infos)
      if (value == info.name())
        return boundShape(info, symbols);
  return std::nullopt;
}

bool Importer::mayUpdate(llvm::StringRef input, llvm::StringRef result) const {
  auto isInput = [&](const auto &each) { return each.name() == input; };
  auto isResult = [&](const ValueInfoProto &output) { return output.name() == result; };
  return depth == 0 && llvm::any_of(graph.input(), isInput) && llvm::none_of(graph.initializer(), isInput) &&
         llvm::any_of(graph.output(), isResult) && usesOf(graph, input) == 1;
}

std::optional<llvm::SmallVector<Value>> Importer::importBody(const ::onnx::GraphProto &body,
                                                             llvm::ArrayRef<Value> inputs) {
  ++depth;
  Result<llvm::SmallVector<Value>> results = addBody(body, inputs);
  --depth;
  if (results)
    return std::move(*results);
  if (!innerError)
    innerError = results.error();
  emit->fail("a graph inside of it has failed");
  return std::nullopt;
}

Result<llvm::SmallVector<Value>> Importer::addBody(const ::onnx::GraphProto &body, llvm::ArrayRef<Value> inputs) {
  constexpr int maxDepth = 32, maxInnerNodes = 200'000;
  if (depth > maxDepth)
    return malformed("graphs inside of nodes nest over " + std::to_string(maxDepth) + " deep");
  innerNodes += body.node_size();
  if (innerNodes > maxInnerNodes)
    return malformed("the graph grows by more than " + std::to_string(maxInnerNodes) +
                     " nodes when its loops are unrolled; export the model without them");
  if (body.input_size() != static_cast<int>(inputs.size()))
    return malformed("graph '" + body.name() + "' inside of a node takes " + std::to_string(body.input_size()) +
                     " inputs and is given " + std::to_string(inputs.size()));
  if (Result<void> supported = checkSupported(body); !supported)
    return supported.error();
  const Names::Scope inner(names);
  for (auto [info, value] : llvm::zip_equal(body.input(), inputs))
    if (Result<void> defined = names.define(info.name(), value); !defined)
      return defined.error();
  if (Result<void> initializers = declareInitializers(body); !initializers)
    return initializers.error();
  for (const NodeProto &node : body.node())
    if (Result<void> added = addNode(node); !added)
      return added.error();
  llvm::SmallVector<Value> results;
  for (const ValueInfoProto &output : body.output()) {
    Result<Value> value = names.read(output.name(), "graph '" + body.name() + "' inside of a node ");
    if (!value)
      return value.error();
    results.push_back(*value);
  }
  return results;
}

Result<void> Importer::finish() {
  llvm::SmallVector<Value> results;
  llvm::SmallVector<mlir::DictionaryAttr> resultAttributes;
  llvm::StringSet<> listed;
  for (const ValueInfoProto &output : graph.output()) {
    Value value = names.lookup(output.name());
    if (Emitter::varies(value))
      value = emit->cachedPast()->atRunTime(value);
    if (const std::string *maker = names.makerOfMissing(output.name()))
      return malformed("output '" + output.name() + "' is a result of " + *maker + " that kfuse does not make");
    if (!value || !listed.insert(output.name()).second)
      return malformed("output '" + output.name() + (value ? "' is listed twice" : "' is made by no node"));
    if (elementsIn(dimsOf(value)) == 0)
      return malformed("output '" + output.name() + "' has no elements");
    results.push_back(value);
    mlir::NamedAttrList attributes;
    attributes.set(nameAttrName, text(output.name()));
    if (auto update = value.getDefiningOp<StateUpdateOp>())
      if (auto state = mlir::dyn_cast<mlir::BlockArgument>(update.getState()))
        attributes.set(stateAttrName,
                       mlir::IntegerAttr::get(mlir::IntegerType::get(&context, 64), state.getArgNumber()));
    resultAttributes.push_back(attributes.getDictionary(&context));
  }
  if (results.empty())
    return malformed("the graph has no outputs");
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(&main.front());
  builder.create<mlir::func::ReturnOp>(builder.getUnknownLoc(), results);
  main.setType(builder.getFunctionType(main.front().getArgumentTypes(), mlir::ValueRange(results).getTypes()));
  main.setAllArgAttrs(argumentAttributes);
  main.setAllResultAttrs(resultAttributes);
  if (growing.capacity > 0) {
    eraseUnused();
    if (Result<void> inPlace = checkCaches(); !inPlace)
      return inPlace;
  }
  for (mlir::Operation &op : llvm::make_early_inc_range(main.front()))
    if (mlir::isa<ConstantOp>(op) && op.use_empty())
      op.erase(); // Folding has used it up.
  if (mlir::failed(mlir::verify(*model.module)))
    return malformed(emit->failure());
  return {};
}

} // namespace kfuse::ir::onnx
