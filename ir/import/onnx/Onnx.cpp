#include "ir/import/onnx/Onnx.h"

#include "ir/dialect/Kfuse.h"
#include "ir/import/onnx/Functions.h"
#include "ir/import/onnx/GrowingCaches.h"
#include "ir/import/onnx/InputShapes.h"
#include "ir/import/onnx/Ops.h"
#include "ir/import/onnx/Refusals.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringSet.h"

#include <limits>
#include <map>

using mlir::Value;

namespace kfuse::ir {
namespace onnx {
namespace {

using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

constexpr std::int64_t oldestOpset = 13, newestOpset = 24;

Error malformed(std::string message) { return {ErrorCode::BadModel, std::move(message)}; }

Result<std::shared_ptr<ModelProto>> parse(std::span<const std::byte> file) {
  auto model = std::make_shared<ModelProto>();
  if (file.size() > std::numeric_limits<int>::max())
    return malformed("the file has " + std::to_string(file.size()) +
                     " bytes; keep weights over 2 GiB as external data");
  if (!model->ParseFromArray(file.data(), static_cast<int>(file.size())) || !model->has_graph())
    return malformed("the file is no ONNX model, or is cut short; copy or export it again");
  return model;
}

Result<void> checkOpset(const ModelProto &model) {
  const std::string known = std::to_string(oldestOpset) + " to " + std::to_string(newestOpset);
  for (const ::onnx::OperatorSetIdProto &opset : model.opset_import())
    if (opset.domain().empty() || opset.domain() == "ai.onnx") {
      if (opset.version() >= oldestOpset && opset.version() <= newestOpset)
        return {};
      return malformed("the model is of opset " + std::to_string(opset.version()) + ", kfuse reads " + known +
                       "; export it again for one of these");
    }
  return malformed("the model does not say which opset it is of; export it again for one of " + known);
}

/// The named pairs that have a capacity.
Result<GrowingCaches> growingCachesOf(const ::onnx::GraphProto &graph, const std::vector<std::string> &patterns) {
  llvm::StringSet<> initialized;
  for (const TensorProto &initializer : graph.initializer())
    initialized.insert(initializer.name());
  std::vector<std::string> inputs, outputs;
  for (const ValueInfoProto &input : graph.input())
    if (!initialized.contains(input.name()))
      inputs.push_back(input.name());
  for (const ValueInfoProto &output : graph.output())
    outputs.push_back(output.name());
  Result<std::vector<StatePair>> pairs = pairStates(patterns, inputs, outputs);
  return pairs ? findGrowingCaches(graph, *pairs) : Result<GrowingCaches>(pairs.error());
}

Result<void> checkAttributes(const NodeProto &node, const OnnxOp &op) {
  llvm::SmallVector<llvm::StringRef> known;
  op.attributes.split(known, ' ');
  for (const ::onnx::AttributeProto &attribute : node.attribute())
    if (!llvm::is_contained(known, attribute.name()))
      return malformed("node '" + labelOf(node) + "' (" + fullNameOf(node) + ") has the attribute '" +
                       attribute.name() + "', which kfuse does not know");
  return {};
}

/// Adds what the nodes of `graph` and of the graphs inside of them read, and which floats of that an op must know.
void addNamesRead(const ::onnx::GraphProto &graph, llvm::StringSet<> &names, llvm::StringSet<> &numbers) {
  for (const NodeProto &node : graph.node()) {
    for (const std::string &name : node.input())
      names.insert(name);
    if (const OnnxOp *op = findOp(node); op && op->numbers < static_cast<unsigned>(node.input_size()))
      numbers.insert(node.input(static_cast<int>(op->numbers)));
    for (const ::onnx::AttributeProto &attribute : node.attribute())
      if (attribute.has_g())
        addNamesRead(attribute.g(), names, numbers);
  }
  for (const ValueInfoProto &output : graph.output())
    names.insert(output.name());
}

/// Names that a graph inside of a node gives, and what they hide of the graphs around it.
struct Scope {
  llvm::StringSet<> own;
  llvm::StringMap<Value> hidden;
  llvm::StringMap<std::string> hiddenMissing;
};

class Importer : Surroundings {
public:
  Importer(const std::shared_ptr<const ModelProto> &proto, DataFolders folders, const GrowingCaches &growing,
           mlir::MLIRContext &context);

  /// `count` rows are new in each run of the caches that grow.
  Result<Model> run(const ImportOptions &options, std::int64_t count);
  /// How many there are, where run() failed since it was told another number; else 0.
  std::int64_t otherCount() { return emit->cachedPast() ? emit->cachedPast()->otherCount : 0; }

private:
  Result<void> declareInputs(const ImportOptions &options, std::int64_t count);
  Result<void> declareCaches(const std::vector<TensorDesc> &inputs, std::int64_t count);
  Result<void> checkCaches();
  void eraseUnused();
  Result<void> declareInitializers(const ::onnx::GraphProto &graph);
  Result<void> addInitializer(const TensorProto &initializer);
  Result<Value> valueOf(const TensorProto &initializer);
  Result<void> addNode(const NodeProto &node);
  Result<llvm::SmallVector<Value>> operandsOf(const NodeProto &node, const OnnxOp &op);
  Result<void> finish();

  std::optional<Ints> declaredShape(llvm::StringRef value) const override;
  bool isOnlyMoved(llvm::StringRef value) const override;
  std::optional<llvm::SmallVector<Value>> importBody(const ::onnx::GraphProto &body,
                                                     llvm::ArrayRef<Value> inputs) override;
  Result<llvm::SmallVector<Value>> addBody(const ::onnx::GraphProto &body, llvm::ArrayRef<Value> inputs);
  void leave(const Scope &inner);

  Value addArgument(const TensorDesc &desc, llvm::StringRef role);
  Result<void> define(const std::string &name, Value value);
  void setMissing(const std::string &name, const std::string &maker);
  Result<Value> valueNamed(const std::string &name, const std::string &reader);
  mlir::Attribute text(llvm::StringRef value) { return mlir::StringAttr::get(&context, value); }

  mlir::MLIRContext &context;
  std::shared_ptr<const ModelProto> proto;
  const ::onnx::GraphProto &graph;
  TensorReader tensors;
  const GrowingCaches &growing;
  Model model;
  mlir::func::FuncOp main;
  std::optional<Emitter> emit;
  llvm::StringMap<Value> values;
  /// Results that kfuse does not make, with the node that would.
  llvm::StringMap<std::string> missing;
  /// Floats that some op must know when the model is read.
  llvm::StringSet<> numbers;
  /// Sizes of symbolic dimensions, as the caller gave them.
  std::map<std::string, std::int64_t> symbols;
  /// Initializers of graphs inside of nodes: a loop's body is imported once a step, its weights once.
  std::map<const TensorProto *, Value> innerInitializers;
  Scope *scope = nullptr; ///< The scope of the innermost graph inside of a node.
  int innerNodes = 0, depth = 0;
  std::optional<Error> innerError;
  llvm::SmallVector<mlir::DictionaryAttr> argumentAttributes;
  llvm::StringSet<> argumentNames;
};

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

Result<void> Importer::define(const std::string &name, Value value) {
  if (name.empty())
    return malformed("an input or initializer has no name");
  if (scope && scope->own.insert(name).second) {
    if (Value outer = std::exchange(values[name], value))
      scope->hidden[name] = outer;
    if (auto outer = missing.find(name); outer != missing.end()) {
      scope->hiddenMissing[name] = outer->second;
      missing.erase(outer);
    }
    return {};
  }
  if (!scope && values.try_emplace(name, value).second)
    return {};
  return malformed("the name '" + name + "' is given to two values");
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
      if (Result<void> defined = define(desc.name, addArgument(desc, "input")); !defined)
        return defined;
  return growing.capacity == 0 ? Result<void>() : declareCaches(bound->inputs, count);
}

/// States with room for all rows, and the length of their past as one more input.
Result<void> Importer::declareCaches(const std::vector<TensorDesc> &inputs, std::int64_t count) {
  auto isTaken = [&](const std::string &name) {
    return values.contains(name) || growing.of(name) ||
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
    if (Result<void> defined = define(desc.name, view); !defined)
      return defined;
    model.states.push_back({cache->past, cache->present, true,
                            "rows are written at " + lengthName + " along axis " + std::to_string(cache->axis) +
                                ", with room for " + std::to_string(growing.capacity)});
  }
  // A mask of the present's length has the capacity's, with zeros behind the present.
  for (const ValueInfoProto &input : graph.input()) {
    Value value = values.lookup(input.name());
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
    Value view = values.lookup(cache.past);
    CachedPast::State *state = emit->cachedPast()->stateOf(view);
    if (!view.use_empty()) {
      mlir::Operation *reader = *view.user_begin();
      auto name = reader->getLoc()->findInstanceOf<mlir::NameLoc>();
      return malformed("input '" + cache.past + "' is read by node '" + (name ? name.getName().str() : "") +
                       "' besides the one that joins rows to it, and so is not kept in place; load it without --state");
    }
    if (!state->present || values.lookup(cache.present) != state->present)
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
    return define(initializer.name(), known->second);
  if (!scope && values.count(initializer.name()))
    return define(initializer.name(), {}); // Says so.
  Result<Value> value = valueOf(initializer);
  if (!value)
    return value.error();
  if (scope)
    innerInitializers[&initializer] = *value;
  return define(initializer.name(), *value);
}

/// Weights become parameters; indices, shapes, single numbers and what an op must know are part of the graph.
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

Result<Value> Importer::valueOf(const TensorProto &initializer) {
  Result<ParameterData> data = tensors.read(initializer);
  if (!data)
    return data.error();
  if (!isFloat(data->type) || elementCount(data->shape) <= 1 || isMask(*data) ||
      (numbers.contains(initializer.name()) && elementCount(data->shape) <= maxFoldedElements))
    return emit->constant(toHost(*data));
  // Two branches may use one name.
  std::string name = initializer.name();
  for (int i = 2; scope && !argumentNames.insert(name).second; ++i)
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
    Result<Value> value = name.empty() ? Result<Value>(Value()) : valueNamed(name, where);
    if (!value)
      return value.error();
    operands.push_back(*value);
  }
  return operands;
}

Result<Value> Importer::valueNamed(const std::string &name, const std::string &reader) {
  if (auto unmade = missing.find(name); unmade != missing.end())
    return malformed(reader + "reads '" + name + "', a result of " + unmade->second + " that kfuse does not make");
  if (Value value = values.lookup(name))
    return value;
  return malformed(reader + "reads '" + name + "', which nothing before it makes");
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
      setMissing(name, where);
    else if (Result<void> defined = define(name, value); !defined)
      return defined;
  }
  return {};
}

void Importer::setMissing(const std::string &name, const std::string &maker) {
  if (scope && scope->own.insert(name).second) {
    if (Value outer = values.lookup(name))
      scope->hidden[name] = outer;
    if (auto outer = missing.find(name); outer != missing.end())
      scope->hiddenMissing[name] = outer->second;
  }
  values.erase(name);
  missing[name] = maker;
}

std::optional<Ints> Importer::declaredShape(llvm::StringRef value) const {
  for (const auto *infos : {&graph.output(), &graph.value_info()})
    for (const ValueInfoProto &info : *infos)
      if (value == info.name())
        return boundShape(info, symbols);
  return std::nullopt;
}

bool Importer::isOnlyMoved(llvm::StringRef value) const {
  constexpr llvm::StringLiteral moves[] = {"Concat",  "Expand", "Flatten", "Gather",    "Identity",
                                           "Reshape", "Slice",  "Squeeze", "Transpose", "Unsqueeze"};
  constexpr llvm::StringLiteral ends[] = {"Cast", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};
  llvm::SmallVector<llvm::StringRef> left{value};
  llvm::StringSet<> seen;
  while (!left.empty()) {
    const llvm::StringRef name = left.pop_back_val();
    if (!seen.insert(name).second)
      continue;
    for (const ValueInfoProto &output : graph.output())
      if (name == output.name())
        return false;
    bool isRead = false;
    for (const NodeProto &node : graph.node()) {
      const bool holdsGraphs = llvm::any_of(node.attribute(), [](const auto &attribute) { return attribute.has_g(); });
      if (holdsGraphs) // Which may read anything around them.
        return false;
      if (!llvm::is_contained(node.input(), name))
        continue;
      isRead = true;
      if (llvm::is_contained(moves, node.op_type()))
        left.append(node.output().begin(), node.output().end());
      else if (!llvm::is_contained(ends, node.op_type()))
        return false;
    }
    if (!isRead)
      return false;
  }
  return true;
}

std::optional<llvm::SmallVector<Value>> Importer::importBody(const ::onnx::GraphProto &body,
                                                             llvm::ArrayRef<Value> inputs) {
  Scope inner, *outer = std::exchange(scope, &inner);
  ++depth;
  Result<llvm::SmallVector<Value>> results = addBody(body, inputs);
  --depth;
  scope = outer;
  leave(inner);
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
  for (auto [info, value] : llvm::zip_equal(body.input(), inputs))
    if (Result<void> defined = define(info.name(), value); !defined)
      return defined.error();
  if (Result<void> initializers = declareInitializers(body); !initializers)
    return initializers.error();
  for (const NodeProto &node : body.node())
    if (Result<void> added = addNode(node); !added)
      return added.error();
  llvm::SmallVector<Value> results;
  for (const ValueInfoProto &output : body.output()) {
    Result<Value> value = valueNamed(output.name(), "graph '" + body.name() + "' inside of a node ");
    if (!value)
      return value.error();
    results.push_back(*value);
  }
  return results;
}

/// What names meant before.
void Importer::leave(const Scope &inner) {
  for (const auto &name : inner.own.keys()) {
    values.erase(name);
    missing.erase(name);
  }
  for (const auto &[name, value] : inner.hidden)
    values[name] = value;
  for (const auto &[name, maker] : inner.hiddenMissing)
    missing[name] = maker;
}

Result<void> Importer::finish() {
  llvm::SmallVector<Value> results;
  llvm::SmallVector<mlir::DictionaryAttr> resultAttributes;
  llvm::StringSet<> names;
  for (const ValueInfoProto &output : graph.output()) {
    Value value = values.lookup(output.name());
    if (Emitter::varies(value))
      value = emit->cachedPast()->atRunTime(value);
    if (auto unmade = missing.find(output.name()); unmade != missing.end())
      return malformed("output '" + output.name() + "' is a result of " + unmade->second + " that kfuse does not make");
    if (!value || !names.insert(output.name()).second)
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

} // namespace
} // namespace onnx

Result<Model> importOnnx(std::span<const std::byte> file, const onnx::DataFolders &folders,
                         const ImportOptions &options, mlir::MLIRContext &context) {
  Result<std::shared_ptr<::onnx::ModelProto>> proto = onnx::parse(file);
  if (!proto)
    return proto.error();
  if (Result<void> opset = onnx::checkOpset(**proto); !opset)
    return opset.error();
  if (Result<void> inlined = onnx::inlineFunctions(**proto); !inlined)
    return inlined.error();
  if (Result<void> supported = onnx::checkSupported((*proto)->graph()); !supported)
    return supported.error();
  Result<onnx::GrowingCaches> growing = onnx::growingCachesOf((*proto)->graph(), options.states);
  if (!growing)
    return growing.error();
  for (std::int64_t count = 1;;) {
    if (growing->capacity > 0 && growing->capacity <= count)
      return Error{ErrorCode::Usage, "a cache with room for " + std::to_string(growing->capacity) +
                                         " rows has none for a past beside the " + std::to_string(count) +
                                         " that are new in each run; give --state a larger capacity"};
    growing->setSizes(*(*proto)->mutable_graph(), count);
    onnx::Importer importer(*proto, folders, *growing, context);
    Result<Model> model = importer.run(options, count);
    if (model || importer.otherCount() == 0 || count != 1)
      return model;
    count = importer.otherCount(); // Now it is known.
  }
}

} // namespace kfuse::ir
