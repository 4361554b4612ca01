#include "ir/RegionScalars.h"

#include "ir/IndexMath.h"
#include "ir/RegionPlacement.h"
#include "ir/dialect/Kfuse.h"
#include "ir/dialect/ScatteredRows.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <optional>
#include <utility>

using namespace mlir;

namespace kfuse::ir {
namespace {

using Index = SmallVector<AffineExpr>;

/// Builds one region's graph.
class RegionScalariser {
public:
  RegionScalariser(Block &body, RegionPlacement placement)
      : body(body), ctx(body.getParentOp()->getContext()), placement(std::move(placement)) {}

  Result<ScalarGraph> run() {
    for (BlockArgument argument : body.getArguments())
      graph.inputs.push_back({dtypeOf(argument.getType()), shapeOf(argument)});
    graph.domain = placement.domain;
    for (Value yielded : body.getTerminator()->getOperands())
      addOutput(yielded);
    if (!refusal.empty())
      return Error{ErrorCode::BadModel, refusal};
    return std::move(graph);
  }

private:
  friend class OpScalarBuilder;

  Index simplified(ArrayRef<AffineExpr> index) {
    Index result;
    for (AffineExpr expr : index)
      result.push_back(simplifyIndex(expr, graph.domain.extents, symbolExtents));
    return result;
  }

  //===- Outputs -----------------------------------------------------------------------------===//

  void addOutput(Value yielded) {
    auto update = yielded.getDefiningOp<StateUpdateOp>();
    Value value = update ? update.getValue() : yielded;
    const auto *where = placement.elementOf(value);
    if (!where)
      return refuse("a result is not placed one to one in the iteration space of " + placement.anchorName());
    ScalarOutput output;
    output.type = dtypeOf(yielded.getType());
    output.shape = shapeOf(yielded);
    Index index = *where;
    output.value = at(value, index);
    const std::optional<RunExtent> end = endOf(value, index);
    graph.runExtent = graph.outputs.empty() || graph.runExtent == end ? end : std::nullopt;
    if (update)
      redirectIntoState(update, index, output);
    output.map = AffineMap::get(graph.domain.rank(), output.symbols.size(), index, ctx);
    graph.outputs.push_back(std::move(output));
  }

  /// Where a run ends an output at `index`: none if it does not, or not along one dimension of the domain.
  std::optional<RunExtent> endOf(Value output, ArrayRef<AffineExpr> index);

  void redirectIntoState(StateUpdateOp update, Index &index, ScalarOutput &output) {
    auto state = dyn_cast<BlockArgument>(update.getState());
    if (!state || state.getOwner() != &body)
      return refuse("a state that is updated must enter the region from outside");
    output.inPlace = state.getArgNumber();
    Index position(dimsOf(update.getPosition()).size(), index[0]);
    if (!position.empty() && dimsOf(update.getPosition())[0] == 1)
      position[0] = getAffineConstantExpr(0, ctx);
    if (scattersRows(update)) {
      if (position.size() > 1)
        position[1] = index[update.getAxis()];
      output.symbols.push_back(at(update.getPosition(), position));
      index[update.getAxis()] = getAffineSymbolExpr(0, ctx);
      return;
    }
    output.symbols.push_back(positionToStore(update, at(update.getPosition(), position)));
    index[update.getAxis()] = index[update.getAxis()] + getAffineSymbolExpr(0, ctx);
  }

  /// A store outside the state is dropped, element by element: a position from which several elements
  /// would end outside must move them all there.
  Scalar positionToStore(StateUpdateOp update, Scalar position);

  //===- Values ------------------------------------------------------------------------------===//

  Scalar at(Value value, ArrayRef<AffineExpr> rawIndex);
  Scalar load(BlockArgument argument, ArrayRef<AffineExpr> index);
  Scalar add(ScalarNode node);
  /// Gives the symbols that a node's expressions use the node's own numbers s0, s1, ...; returns what
  /// replaces each.
  SmallVector<AffineExpr> bindSymbols(ArrayRef<AffineExpr> used, ScalarNode &node);
  /// Whether an index differs along domain dimension `dim`, by itself or by the value of a symbol.
  bool dependsOn(AffineExpr expr, unsigned dim) const;
  bool bindsReduction(FusableOpInterface op, ArrayRef<AffineExpr> index);
  /// Those guards in force that hold inside a reduction, or none where that cannot be said.
  std::optional<SmallVector<Guard, 2>> guardsOfRow() const;
  bool isWithin(ArrayRef<Guard> columnGuards, int64_t column) const;

  void refuse(const Twine &reason) {
    if (refusal.empty())
      refusal = reason.str();
  }

  Block &body;
  MLIRContext *ctx;
  const RegionPlacement placement;
  ScalarGraph graph;
  std::string refusal;
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
  Scalar integer(int64_t value, DType type) override {
    ScalarNode node;
    node.kind = ScalarNode::Kind::Constant;
    node.type = computeType(type);
    node.integer = value;
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
  bool isLoad(Scalar value) const override {
    while (region.graph[value].kind == ScalarNode::Kind::Cast)
      value = region.graph[value].operands.front();
    return region.graph[value].kind == ScalarNode::Kind::Load;
  }
  Scalar reduce(StringRef function, int64_t extent, llvm::function_ref<Scalar(AffineExpr)> body) override {
    const Domain &domain = region.graph.domain;
    if (domain.reductionDim < 0)
      return refuse(op->getName().getStringRef() + " needs whole rows, which a region of " +
                    region.placement.anchorName() + " does not hold");
    if (domain.extents[domain.reductionDim] != extent)
      return refuse("row lengths differ: " + Twine(domain.extents[domain.reductionDim]) + " != " + Twine(extent));
    std::optional<SmallVector<Guard, 2>> guardsOfRow = region.guardsOfRow();
    if (!guardsOfRow)
      return refuse(op->getName().getStringRef() + " is needed under a condition on its rows and columns together");
    ScalarNode node;
    node.kind = ScalarNode::Kind::Reduce;
    node.function = function.str();
    std::swap(region.guards, *guardsOfRow);
    Scalar element = body(getAffineDimExpr(domain.reductionDim, region.ctx));
    std::swap(region.guards, *guardsOfRow);
    if (!element)
      return {};
    node.type = region.graph[element].type;
    node.operands = {element};
    return region.add(std::move(node));
  }
  Scalar contract(int64_t extent, llvm::function_ref<Scalar(AffineExpr)> lhs,
                  llvm::function_ref<Scalar(AffineExpr)> rhs, StringRef precision) override {
    if (!region.placement.isOfContraction())
      return refuse("a product beside " + region.placement.anchorName());
    int64_t anchorExtent = region.graph.domain.extents.back();
    if (extent != anchorExtent)
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
  Scalar starts = builder.apply("ge", {position, builder.integer(0, type)}, DType::Bool);
  Scalar ends = builder.apply("le", {position, builder.integer(size - count, type)}, DType::Bool);
  Scalar fits = builder.apply("and", {starts, ends}, DType::Bool);
  return builder.apply("where", {fits, position, builder.integer(size, type)}, type);
}

std::optional<RunExtent> RegionScalariser::endOf(Value output, ArrayRef<AffineExpr> index) {
  auto prefix = output.getDefiningOp<PrefixOp>();
  if (!prefix)
    return std::nullopt;
  auto dim = dyn_cast<AffineDimExpr>(index[prefix.getAxis()]);
  if (!dim)
    return std::nullopt;
  OpScalarBuilder builder(*this, prefix);
  const DType type = dtypeOf(prefix.getLengths().getType());
  Scalar count = builder.operand(1, getAffineConstantExpr(prefix.getLength(), ctx));
  if (prefix.getTimes() != 1)
    count = builder.apply("mul", {count, builder.integer(prefix.getTimes(), type)}, type);
  if (prefix.getPlus() != 0)
    count = builder.apply("add", {count, builder.integer(prefix.getPlus(), type)}, type);
  if (!count)
    return std::nullopt;
  return RunExtent{dim.getPosition(), count};
}

/// A row op binds the reduction dimension: the row it works on must not depend on it.
bool RegionScalariser::bindsReduction(FusableOpInterface op, ArrayRef<AffineExpr> index) {
  if (op.getOpKind() != OpKind::RowReduction || graph.domain.reductionDim < 0)
    return false;
  bool keepsShape = dimsOf(op->getOperand(0)) == dimsOf(op->getResult(0));
  return llvm::any_of(keepsShape ? index.drop_back() : index,
                      [&](AffineExpr expr) { return dependsOn(expr, graph.domain.reductionDim); });
}

bool RegionScalariser::dependsOn(AffineExpr expr, unsigned dim) const {
  if (expr.isFunctionOfDim(dim))
    return true;
  for (unsigned i = 0; i < symbolValues.size(); ++i)
    if (expr.isFunctionOfSymbol(i) && graph.dependsOn(symbolValues[i], dim))
      return true;
  return false;
}

/// A point asks for the reduction of its row, which reads all columns, whatever the column of the point. So a guard of
/// columns, as that of a half of rotated rows, bars no column of the reduction; where it lets no point of the row pass,
/// the row may lie outside its tensor, and stays barred. A guard of rows bars whole rows, inside as outside.
std::optional<SmallVector<Guard, 2>> RegionScalariser::guardsOfRow() const {
  const unsigned column = graph.domain.reductionDim;
  SmallVector<Guard, 2> ofRows, ofColumns;
  for (const Guard &guard : guards) {
    const bool isOfColumns = dependsOn(guard.index, column);
    (isOfColumns ? ofColumns : ofRows).push_back(guard);
    if (!isOfColumns)
      continue;
    for (unsigned dim = 0; dim < graph.domain.rank(); ++dim)
      if (dim != column && dependsOn(guard.index, dim))
        return std::nullopt;
    for (unsigned i = 0; i < symbolValues.size(); ++i)
      if (guard.index.isFunctionOfSymbol(i))
        return std::nullopt;
  }
  for (int64_t at = 0; at < graph.domain.extents[column]; ++at)
    if (isWithin(ofColumns, at))
      return ofRows;
  return guards;
}

bool RegionScalariser::isWithin(ArrayRef<Guard> columnGuards, int64_t column) const {
  return llvm::all_of(columnGuards, [&](const Guard &guard) {
    AffineExpr index =
        guard.index.replace(getAffineDimExpr(graph.domain.reductionDim, ctx), getAffineConstantExpr(column, ctx));
    auto number = dyn_cast<AffineConstantExpr>(index);
    return number && number.getValue() >= guard.low && number.getValue() < guard.high;
  });
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
  if (op.getOpKind() == OpKind::Contraction && placement.anchor &&
      index != *placement.elementOf(placement.anchor->getResult(0))) {
    refuse("a product is needed at another place than where " + placement.anchorName() + " is computed");
    return {};
  }
  if (bindsReduction(op, index)) {
    refuse(op->getName().getStringRef() + " works along another dimension than " + placement.anchorName());
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
  os << " " << node.integer;
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

Result<ScalarGraph> scalariseRegion(Block &body) { return RegionScalariser(body, placeRegion(body)).run(); }

Result<ScalarGraph> scalariseByResult(Block &body) { return RegionScalariser(body, placeByResult(body)).run(); }

} // namespace kfuse::ir
