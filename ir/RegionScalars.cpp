#include "ir/RegionScalars.h"

#include "ir/IndexMath.h"
#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace mlir;

namespace kfuse::ir {
namespace {

using Index = SmallVector<AffineExpr>;

/// Every float is computed in f32.
DType computeType(DType type) { return isFloat(type) ? DType::F32 : type; }

/// Learns the index at which an op first reads one operand; answers everything else with a dummy.
class OperandIndexRecorder : public ScalarBuilder {
public:
  OperandIndexRecorder(MLIRContext *context, unsigned wanted, AffineExpr reduction)
      : ctx(context), wanted(wanted), reduction(reduction) {}
  std::optional<Index> recorded;

  MLIRContext *context() override { return ctx; }
  Scalar operand(unsigned i, ArrayRef<AffineExpr> index) override {
    if (i == wanted && !recorded)
      recorded = Index(index);
    return {0};
  }
  Scalar constant(double, DType) override { return {0}; }
  Scalar apply(StringRef, ArrayRef<Scalar>, DType) override { return {0}; }
  Scalar cast(Scalar, DType) override { return {0}; }
  Scalar indexValue(AffineExpr) override { return {0}; }
  AffineExpr dynamicIndex(Scalar, int64_t) override { return getAffineSymbolExpr(0, ctx); }
  Scalar guarded(Guard, llvm::function_ref<Scalar()> body) override { return body(); }
  Scalar reduce(StringRef, int64_t, llvm::function_ref<Scalar(AffineExpr)> body) override {
    return reduction ? body(reduction) : Scalar{};
  }
  Scalar contract(int64_t, llvm::function_ref<Scalar(AffineExpr)>, llvm::function_ref<Scalar(AffineExpr)>,
                  StringRef) override {
    return {0};
  }
  Scalar refuse(const Twine &) override { return {}; }

private:
  MLIRContext *ctx;
  unsigned wanted;
  AffineExpr reduction;
};

/// Builds one region's graph.
class RegionScalariser {
public:
  explicit RegionScalariser(Block &body) : body(body), ctx(body.getParentOp()->getContext()) {}

  Result<ScalarGraph> run() {
    for (BlockArgument argument : body.getArguments())
      graph.inputs.push_back({dtypeOf(argument.getType()), shapeOf(argument)});
    chooseDomain();
    placeValues();
    for (Value yielded : body.getTerminator()->getOperands())
      addOutput(yielded);
    if (!refusal.empty())
      return Error{ErrorCode::BadModel, refusal};
    return std::move(graph);
  }

private:
  friend class OpScalarBuilder;

  //===- Domain ------------------------------------------------------------------------------===//

  Operation *firstOfKind(OpKind kind) {
    for (Operation &op : body.without_terminator())
      if (auto fusable = dyn_cast<FusableOpInterface>(op); fusable && fusable.getOpKind() == kind)
        return &op;
    return nullptr;
  }

  /// Whether `op` is computed from `source`.
  bool isComputedFrom(Operation *op, Operation *source) {
    SmallPtrSet<Operation *, 8> computed{source};
    for (Operation &later : body.without_terminator())
      if (llvm::any_of(later.getOperands(), [&](Value operand) { return computed.contains(operand.getDefiningOp()); }))
        computed.insert(&later);
    return computed.contains(op);
  }

  /// What the rows beside a product lie along: K where it multiplies what they become, else the columns of its result.
  int rowsBeside(Operation *product) {
    Operation *rows = firstOfKind(OpKind::RowReduction);
    if (!rows)
      return -1;
    return isComputedFrom(product, rows) ? graph.domain.contractionDim : graph.domain.contractionDim - 1;
  }

  void chooseDomain() {
    Domain &domain = graph.domain;
    auto take = [&](Value shape) { domain.extents.assign(dimsOf(shape).begin(), dimsOf(shape).end()); };
    auto seed = [&](Value value) {
      Index identity;
      for (size_t i = 0; i < dimsOf(value).size(); ++i)
        identity.push_back(getAffineDimExpr(i, ctx));
      place(value, identity);
    };
    if (Operation *product = firstOfKind(OpKind::Contraction)) {
      Value result = product->getResult(0);
      take(result);
      int64_t flops = cast<FusableOpInterface>(product).getFlops();
      domain.contractionDim = domain.rank();
      domain.extents.push_back(flops / 2 / domain.points());
      domain.reductionDim = rowsBeside(product);
      anchor = product;
      return seed(result);
    }
    if (Operation *rows = firstOfKind(OpKind::RowReduction)) {
      Value result = rows->getResult(0);
      ArrayRef<int64_t> dims = dimsOf(rows->getOperand(0));
      take(result);
      bool keepsShape = dims == dimsOf(result);
      domain.reductionDim = keepsShape ? domain.rank() - 1 : domain.rank();
      if (!keepsShape)
        domain.extents.push_back(elementsIn(dims) / domain.points());
      return seed(result);
    }
    // Elementwise: the elements of the first result; of what is written, for a state update.
    Value first = body.getTerminator()->getOperand(0);
    if (auto update = first.getDefiningOp<StateUpdateOp>())
      first = update.getValue();
    take(first);
    seed(first);
  }

  //===- Placement ---------------------------------------------------------------------------===//

  Index simplified(ArrayRef<AffineExpr> index) {
    Index result;
    for (AffineExpr expr : index)
      result.push_back(simplifyIndex(expr, graph.domain.extents, symbolExtents));
    return result;
  }

  bool place(Value value, ArrayRef<AffineExpr> index) { return placement.try_emplace(value, simplified(index)).second; }

  /// Values that hold one element per domain point (or per row), found from the anchor outwards.
  void placeValues() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (Operation &op : body.without_terminator())
        if (auto fusable = dyn_cast<FusableOpInterface>(op)) {
          changed |= placeForward(fusable);
          changed |= placeBackward(fusable);
        }
    }
  }

  bool placeForward(FusableOpInterface op) {
    Value result = op->getResult(0);
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (auto known = placement.find(operand); known != placement.end() && !placement.count(result))
        if (std::optional<Index> index = op.forwardIndex(i, known->second))
          return place(result, *index);
    return false;
  }

  bool placeBackward(FusableOpInterface op) {
    auto known = placement.find(op->getResult(0));
    if (known == placement.end() || op.getOpKind() == OpKind::Contraction)
      return false;
    bool changed = false;
    Index resultIndex = known->second;
    AffineExpr reduction =
        graph.domain.reductionDim < 0 ? AffineExpr() : getAffineDimExpr(graph.domain.reductionDim, ctx);
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (placement.count(operand))
        continue;
      OperandIndexRecorder recorder(ctx, i, reduction);
      op.scalarise(recorder, resultIndex);
      if (recorder.recorded && isOneToOne(operand, *recorder.recorded))
        changed |= place(operand, *recorder.recorded);
    }
    return changed;
  }

  /// Element counts match the domain dims used and every dimension is read with unit weight: a
  /// slice or broadcast fails the count, a gather its symbol.
  bool isOneToOne(Value value, ArrayRef<AffineExpr> index) {
    int64_t points = 1;
    for (unsigned dim = 0; dim < graph.domain.rank(); ++dim)
      if (llvm::any_of(index, [&](AffineExpr expr) { return expr.isFunctionOfDim(dim); }))
        points *= graph.domain.extents[dim];
    bool dynamic = llvm::any_of(index, [](AffineExpr expr) { return expr.isFunctionOfSymbol(0); });
    AffineExpr offset = linearise(simplified(index), dimsOf(value), ctx);
    bool covers = !dynamic && maxOfIndex(offset, graph.domain.extents) == elementsIn(dimsOf(value)) - 1;
    return covers && points == elementsIn(dimsOf(value));
  }

  //===- Outputs -----------------------------------------------------------------------------===//

  void addOutput(Value yielded) {
    auto update = yielded.getDefiningOp<StateUpdateOp>();
    Value value = update ? update.getValue() : yielded;
    auto where = placement.find(value);
    if (where == placement.end())
      return refuse("a result is not placed one to one in the iteration space of " + anchorName());
    ScalarOutput output;
    output.type = dtypeOf(yielded.getType());
    output.shape = shapeOf(yielded);
    Index index = where->second;
    output.value = at(value, index);
    if (update)
      redirectIntoState(update, index, output);
    output.map = AffineMap::get(graph.domain.rank(), output.symbols.size(), index, ctx);
    graph.outputs.push_back(std::move(output));
  }

  void redirectIntoState(StateUpdateOp update, Index &index, ScalarOutput &output) {
    auto state = dyn_cast<BlockArgument>(update.getState());
    if (!state || state.getOwner() != &body)
      return refuse("a state that is updated must enter the region from outside");
    output.inPlace = state.getArgNumber();
    Index position(dimsOf(update.getPosition()).size(), index[0]);
    if (!position.empty() && dimsOf(update.getPosition())[0] == 1)
      position[0] = getAffineConstantExpr(0, ctx);
    output.symbols.push_back(positionToStore(update, at(update.getPosition(), position)));
    index[update.getAxis()] = index[update.getAxis()] + getAffineSymbolExpr(0, ctx);
  }

  /// A store outside the state is dropped, element by element: a position from which several elements
  /// would end outside must move them all there.
  Scalar positionToStore(StateUpdateOp update, Scalar position);

  std::string anchorName() {
    Operation *op = anchor ? anchor : firstOfKind(OpKind::RowReduction);
    return op ? op->getName().getStringRef().str() : "the first result";
  }

  //===- Values ------------------------------------------------------------------------------===//

  Scalar at(Value value, ArrayRef<AffineExpr> rawIndex);
  Scalar load(BlockArgument argument, ArrayRef<AffineExpr> index);
  Scalar add(ScalarNode node);
  /// Gives the symbols that a node's expressions use the node's own numbers s0, s1, ...; returns what
  /// replaces each.
  SmallVector<AffineExpr> bindSymbols(ArrayRef<AffineExpr> used, ScalarNode &node);
  bool bindsReduction(FusableOpInterface op, ArrayRef<AffineExpr> index);

  void refuse(const Twine &reason) {
    if (refusal.empty())
      refusal = reason.str();
  }

  Block &body;
  MLIRContext *ctx;
  Operation *anchor = nullptr; ///< The contraction.
  ScalarGraph graph;
  std::string refusal;
  DenseMap<Value, Index> placement;
  SmallVector<Guard, 2> guards; ///< Those in force.
  SmallVector<Scalar> symbolValues;
  SmallVector<int64_t> symbolExtents;
  std::map<std::string, int> nodeIds;
  std::map<std::string, Scalar> known; ///< Value at an index under the guards in force.
};

/// What one op asks while it describes its result.
class OpScalarBuilder : public ScalarBuilder {
public:
  OpScalarBuilder(RegionScalariser &region, Operation *op) : region(region), op(op) {}

  MLIRContext *context() override { return region.ctx; }
  Scalar operand(unsigned i, ArrayRef<AffineExpr> index) override { return region.at(op->getOperand(i), index); }
  Scalar constant(double value, DType type) override {
    ScalarNode node;
    node.kind = ScalarNode::Kind::Constant;
    node.type = computeType(type);
    node.constant = value;
    return region.add(std::move(node));
  }
  Scalar apply(StringRef function, ArrayRef<Scalar> operands, DType type) override {
    if (llvm::any_of(operands, [](Scalar s) { return !s; }))
      return {};
    ScalarNode node;
    node.kind = ScalarNode::Kind::Apply;
    node.type = computeType(type);
    node.function = function.str();
    node.operands.assign(operands.begin(), operands.end());
    return region.add(std::move(node));
  }
  Scalar cast(Scalar value, DType type) override {
    if (!value || region.graph[value].type == computeType(type))
      return value;
    ScalarNode node;
    node.kind = ScalarNode::Kind::Cast;
    node.type = computeType(type);
    node.operands = {value};
    return region.add(std::move(node));
  }
  Scalar indexValue(AffineExpr index) override {
    ScalarNode node;
    node.kind = ScalarNode::Kind::Index;
    node.type = DType::I64;
    AffineExpr simplified = simplifyIndex(index, region.graph.domain.extents, region.symbolExtents);
    node.index = simplified.replaceSymbols(region.bindSymbols(simplified, node));
    return region.add(std::move(node));
  }
  AffineExpr dynamicIndex(Scalar value, int64_t extent) override {
    auto found = llvm::find(region.symbolValues, value);
    unsigned position = found - region.symbolValues.begin();
    if (found == region.symbolValues.end()) {
      region.symbolValues.push_back(value);
      region.symbolExtents.push_back(extent);
    }
    return getAffineSymbolExpr(position, region.ctx);
  }
  Scalar guarded(Guard guard, llvm::function_ref<Scalar()> body) override {
    guard.index = simplifyIndex(guard.index, region.graph.domain.extents, region.symbolExtents);
    region.guards.push_back(guard);
    Scalar value = body();
    region.guards.pop_back();
    return value;
  }
  Scalar reduce(StringRef function, int64_t extent, llvm::function_ref<Scalar(AffineExpr)> body) override {
    const Domain &domain = region.graph.domain;
    if (domain.reductionDim < 0)
      return refuse(op->getName().getStringRef() + " needs whole rows, which a region of " + region.anchorName() +
                    " does not hold");
    if (domain.extents[domain.reductionDim] != extent)
      return refuse("row lengths differ: " + Twine(domain.extents[domain.reductionDim]) + " != " + Twine(extent));
    ScalarNode node;
    node.kind = ScalarNode::Kind::Reduce;
    node.function = function.str();
    Scalar element = body(getAffineDimExpr(domain.reductionDim, region.ctx));
    if (!element)
      return {};
    node.type = region.graph[element].type;
    node.operands = {element};
    return region.add(std::move(node));
  }
  Scalar contract(int64_t extent, llvm::function_ref<Scalar(AffineExpr)> lhs,
                  llvm::function_ref<Scalar(AffineExpr)> rhs, StringRef precision) override {
    int64_t anchorExtent = region.graph.domain.extents.back();
    if (!region.anchor || extent != anchorExtent)
      return refuse("products of " + Twine(anchorExtent) + " and " + Twine(extent) + " along K in one region");
    AffineExpr k = getAffineDimExpr(region.graph.domain.contractionDim, region.ctx);
    Scalar a = lhs(k), b = rhs(k);
    if (!a || !b)
      return {};
    ScalarNode node;
    node.kind = ScalarNode::Kind::Contract;
    node.function = precision.str();
    node.operands = {a, b};
    return region.add(std::move(node));
  }
  Scalar refuse(const Twine &reason) override {
    region.refuse(reason);
    return {};
  }

private:
  RegionScalariser &region;
  Operation *op;
};

Scalar RegionScalariser::positionToStore(StateUpdateOp update, Scalar position) {
  int64_t size = dimsOf(update.getState())[update.getAxis()], count = dimsOf(update.getValue())[update.getAxis()];
  if (!position || count == 1)
    return position;
  OpScalarBuilder builder(*this, update);
  DType type = dtypeOf(update.getPosition().getType());
  Scalar starts = builder.apply("ge", {position, builder.constant(0, type)}, DType::Bool);
  Scalar ends = builder.apply("le", {position, builder.constant(size - count, type)}, DType::Bool);
  Scalar fits = builder.apply("and", {starts, ends}, DType::Bool);
  return builder.apply("where", {fits, position, builder.constant(size, type)}, type);
}

/// A row op binds the reduction dimension: the row it works on must not depend on it.
bool RegionScalariser::bindsReduction(FusableOpInterface op, ArrayRef<AffineExpr> index) {
  if (op.getOpKind() != OpKind::RowReduction || graph.domain.reductionDim < 0)
    return false;
  bool keepsShape = dimsOf(op->getOperand(0)) == dimsOf(op->getResult(0));
  return llvm::any_of(keepsShape ? index.drop_back() : index,
                      [&](AffineExpr expr) { return expr.isFunctionOfDim(graph.domain.reductionDim); });
}

Scalar RegionScalariser::at(Value value, ArrayRef<AffineExpr> rawIndex) {
  Index index = simplified(rawIndex);
  if (auto argument = dyn_cast<BlockArgument>(value))
    return load(argument, index);

  std::string key;
  llvm::raw_string_ostream os(key);
  os << value.getAsOpaquePointer();
  for (AffineExpr expr : index)
    os << "," << expr.getAsOpaquePointer();
  for (const Guard &guard : guards)
    os << "|" << guard.index.getAsOpaquePointer() << ":" << guard.low << ":" << guard.high;
  if (auto found = known.find(key); found != known.end())
    return found->second;

  auto op = dyn_cast<FusableOpInterface>(value.getDefiningOp());
  if (!op) {
    refuse(value.getDefiningOp()->getName().getStringRef() + " has no scalar form");
    return {};
  }
  if (op.getOpKind() == OpKind::Contraction && index != placement.find(anchor->getResult(0))->second) {
    refuse("a product is needed at another place than where " + anchorName() + " is computed");
    return {};
  }
  if (bindsReduction(op, index)) {
    refuse(op->getName().getStringRef() + " works along another dimension than " + anchorName());
    return {};
  }
  OpScalarBuilder builder(*this, op);
  Scalar result = op.scalarise(builder, index);
  if (!result)
    refuse(op->getName().getStringRef() + " has no scalar form here");
  return known[key] = result;
}

SmallVector<AffineExpr> RegionScalariser::bindSymbols(ArrayRef<AffineExpr> used, ScalarNode &node) {
  SmallVector<AffineExpr> renumbered(symbolValues.size());
  for (unsigned i = 0; i < symbolValues.size(); ++i) {
    bool isUsed = llvm::any_of(used, [&](AffineExpr expr) { return expr.isFunctionOfSymbol(i); });
    renumbered[i] = getAffineSymbolExpr(isUsed ? node.symbols.size() : 0, ctx);
    if (isUsed)
      node.symbols.push_back(symbolValues[i]);
  }
  return renumbered;
}

Scalar RegionScalariser::load(BlockArgument argument, ArrayRef<AffineExpr> index) {
  ScalarNode node;
  node.kind = ScalarNode::Kind::Load;
  node.type = computeType(dtypeOf(argument.getType()));
  node.input = argument.getArgNumber();
  node.guards = guards;

  SmallVector<AffineExpr> used(index);
  for (const Guard &guard : guards)
    used.push_back(guard.index);
  SmallVector<AffineExpr> renumbered = bindSymbols(used, node);
  AffineMap map = AffineMap::get(graph.domain.rank(), symbolValues.size(), index, ctx);
  node.map = map.replaceDimsAndSymbols({}, renumbered, graph.domain.rank(), node.symbols.size());
  for (Guard &guard : node.guards)
    guard.index = guard.index.replaceSymbols(renumbered);
  return add(std::move(node));
}

Scalar RegionScalariser::add(ScalarNode node) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << static_cast<int>(node.kind) << " " << static_cast<int>(node.type) << " " << node.function << " " << node.input
     << " ";
  os.write(reinterpret_cast<const char *>(&node.constant), sizeof(node.constant));
  os << " " << node.map.getAsOpaquePointer() << " " << node.index.getAsOpaquePointer();
  for (Scalar operand : node.operands)
    os << " %" << operand.id;
  for (Scalar symbol : node.symbols)
    os << " $" << symbol.id;
  for (const Guard &guard : node.guards)
    os << " |" << guard.index.getAsOpaquePointer() << ":" << guard.low << ":" << guard.high;
  auto [found, isNew] = nodeIds.try_emplace(key, graph.nodes.size());
  if (isNew)
    graph.nodes.push_back(std::move(node));
  return {found->second};
}

} // namespace

Result<ScalarGraph> scalariseRegion(Block &body) { return RegionScalariser(body).run(); }

} // namespace kfuse::ir
