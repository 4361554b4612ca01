#include "passes/fuse/Partition.h"

#include "ir/IndexMath.h"
#include "ir/RegionScalars.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

std::optional<OpKind> kindOf(Operation *op) {
  auto fusable = dyn_cast<FusableOpInterface>(op);
  return fusable ? std::make_optional(fusable.getOpKind()) : std::nullopt;
}

/// "matmul", or "matmul 'layers.0.q_proj'" where the model names the node.
std::string nameOf(Operation *op) {
  std::string name = op->getName().stripDialect().str();
  if (auto location = dyn_cast<NameLoc>(op->getLoc()))
    name += " '" + location.getName().str() + "'";
  return name;
}

/// The op a group is known by: its product, else its row reduction, else its last.
Operation *mainOp(ArrayRef<Operation *> ops) {
  for (OpKind kind : {OpKind::Contraction, OpKind::RowReduction})
    for (Operation *op : ops)
      if (kindOf(op) == kind)
        return op;
  return ops.back();
}

/// Whether address `index` of a tensor of `shape` is linear in the domain.
bool isStrided(AffineMap index, ArrayRef<int64_t> shape, const Domain &domain) {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  AffineExpr address = simplifyIndex(linearise(index.getResults(), shape, index.getContext()), domain.extents);
  return index.getNumSymbols() == 0 && linearForm(address, domain.rank(), strides, offset);
}

bool readsWithStrides(Block &body) {
  Result<ScalarGraph> graph = scalariseRegion(body);
  return graph && llvm::all_of(graph->nodes, [&](const ScalarNode &node) {
           return node.kind != ScalarNode::Kind::Load ||
                  (node.guards.empty() && isStrided(node.map, graph->inputs[node.input].shape, graph->domain));
         });
}

bool writesWithStrides(Block &body) {
  Result<ScalarGraph> graph = scalariseRegion(body);
  return graph && llvm::all_of(graph->outputs, [&](const ScalarOutput &output) {
           return isStrided(output.map, output.shape, graph->domain);
         });
}

/// A state is read through its old value only before its update: not inside the same region.
bool readsUpdatedState(Block &body) {
  for (auto update : body.getOps<StateUpdateOp>())
    if (!update.getState().hasOneUse())
      return true;
  return false;
}

} // namespace

Partition::Partition(Block &block, const CostModel &model)
    : block(block), model(model), transparency(block), regions(transparency) {}

LogicalResult Partition::run() {
  materialiseReturned();
  for (Operation &op : block.without_terminator())
    if (!transparency.isTransparent(&op) && !isa<ConstantOp>(op) && failed(settleLayout(&op)))
      return failure();
  buildGraph();
  if (failed(orderStateUpdates()))
    return failure();

  auto growAll = [&](auto isWanted) {
    for (Operation *unit : units)
      if (Traits traits = traitsOf(unit); isWanted(traits)) {
        growDown(graph->groupOf(unit));
        if (traits.hasRows)
          growUp(graph->groupOf(unit));
      }
  };
  growAll([](const Traits &traits) { return traits.hasProduct; });
  growAll([](const Traits &traits) { return traits.hasRows; });
  growAll([](const Traits &) { return true; });
  return success();
}

FusionDecision Partition::accepts(ArrayRef<Operation *> members) const {
  BuiltRegion region = regions.build(members);
  if (readsUpdatedState(region.body()))
    return FusionDecision::no("one reads the value of a state that the other overwrites");
  return model.accepts(region.body());
}

//===- Layout --------------------------------------------------------------------------------===//

/// What the function returns must be in memory.
void Partition::materialiseReturned() {
  for (Value returned : block.getTerminator()->getOperands())
    if (Operation *op = peelReshapes(returned).getDefiningOp(); op && !isa<ConstantOp>(op))
      transparency.materialise(op);
}

/// Decides, for the layout in front of one op, what its region absorbs and what is written to memory
/// first; `op` becomes a unit.
LogicalResult Partition::settleLayout(Operation *op) {
  if (!settled.insert(op).second)
    return success();
  FusionDecision decision = accepts(op);
  if (!decision)
    decision = materialiseOperands(op, decision);
  else if (kindOf(op) == OpKind::Contraction)
    preferStoredOperands(op);
  if (!decision)
    return op->emitError() << "no kernel template of " << model.target().name << " takes " << nameOf(op) << ": "
                           << decision.reason();
  // Layout that is now written to memory is computed by regions of its own, before this one.
  for (Value operand : op->getOperands()) {
    SmallVector<Operation *> written;
    transparency.forEachSource(operand, [&](Value source) {
      if (source.getDefiningOp() && !isa<ConstantOp>(source.getDefiningOp()))
        written.push_back(source.getDefiningOp());
    });
    for (Operation *source : written)
      if (failed(settleLayout(source)))
        return failure();
  }
  units.push_back(op);
  return success();
}

/// The refused op reads one operand's layout from memory, then several, until a template takes it.
FusionDecision Partition::materialiseOperands(Operation *op, const FusionDecision &refusal) {
  SmallVector<Operation *> layouts;
  for (Value operand : op->getOperands())
    if (Operation *layout = peelReshapes(operand).getDefiningOp();
        transparency.isTransparent(layout) && !llvm::is_contained(layouts, layout))
      layouts.push_back(layout);
  for (Operation *layout : layouts) {
    transparency.materialise(layout);
    if (accepts(op))
      return FusionDecision::yes();
    transparency.absorb(layout);
  }
  for (Operation *layout : layouts)
    transparency.materialise(layout);
  return layouts.empty() ? refusal : accepts(op);
}

/// A product whose operand would be read otherwise than with plain strides may be better served by
/// memory:
/// - where the operand's producer can write it in the product's order with plain strides: heads
///   [B, H, S, D] -> [B, S, H*D] behind attention are written, not read, in their new order;
/// - where a copy and a product of plain operands cost less: keys joined from a cache and new ones.
void Partition::preferStoredOperands(Operation *product) {
  for (Value operand : product->getOperands()) {
    Operation *layout = peelReshapes(operand).getDefiningOp();
    BuiltRegion absorbed = regions.build(product);
    if (!transparency.isTransparent(layout) || readsWithStrides(absorbed.body()))
      continue;
    transparency.materialise(layout);
    SmallVector<Operation *> together{layout};
    if (Operation *producer = producerOf(layout))
      together.insert(together.begin(), producer);
    bool isWritten = together.size() == 2 && accepts(together) && writesWithStrides(regions.build(together).body());
    if (!accepts(product) || !(isWritten || isCheaperCopied(product, layout, model.estimateUs(absorbed.body()))))
      transparency.absorb(layout);
  }
}

/// The op whose result a chain of transparent layout ops moves.
Operation *Partition::producerOf(Operation *layout) const {
  Operation *producer = layout;
  do
    producer = producer->getNumOperands() == 1 ? producer->getOperand(0).getDefiningOp() : nullptr;
  while (transparency.isTransparent(producer));
  return producer && !isa<ConstantOp>(producer) ? producer : nullptr;
}

bool Partition::isCheaperCopied(Operation *product, Operation *layout, double absorbedUs) const {
  if (!accepts(layout))
    return false;
  return model.estimateUs(regions.build(product).body()) + model.estimateUs(regions.build(layout).body()) < absorbedUs;
}

//===- Groups --------------------------------------------------------------------------------===//

void Partition::buildGraph() {
  llvm::sort(units, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  graph.emplace(units);
  for (Operation *unit : units)
    for (Value operand : unit->getOperands())
      transparency.forEachSource(operand, [&](Value source) {
        if (Operation *producer = source.getDefiningOp(); producer && !isa<ConstantOp>(producer))
          graph->addEdge(producer, unit);
      });
}

/// Whoever reads a state's old value runs before its update.
LogicalResult Partition::orderStateUpdates() {
  llvm::DenseMap<Value, SmallVector<Operation *>> readers;
  for (Operation *unit : units)
    for (Value operand : unit->getOperands())
      transparency.forEachSource(operand, [&](Value source) { readers[source].push_back(unit); });
  for (Operation *unit : units)
    if (auto update = dyn_cast<StateUpdateOp>(unit))
      for (Operation *reader : readers[peelReshapes(update.getState())])
        if (reader != unit)
          graph->addEdge(reader, unit);
  if (graph->sort())
    return success();
  for (Operation *unit : units)
    if (isa<StateUpdateOp>(unit))
      return unit->emitError() << "the state's old value is needed together with its new one, which overwrites it";
  llvm_unreachable("without state updates the order of the block is topological");
}

Partition::Traits Partition::traitsOf(ArrayRef<Operation *> ops) const {
  Traits traits;
  for (Operation *op : ops) {
    std::optional<OpKind> kind = kindOf(op);
    int64_t points = cast<RankedTensorType>(op->getResult(0).getType()).getNumElements();
    if (kind == OpKind::RowReduction)
      points = std::max(points, cast<RankedTensorType>(op->getOperand(0).getType()).getNumElements());
    if (kind == OpKind::StateUpdate)
      points = cast<RankedTensorType>(op->getOperand(1).getType()).getNumElements();
    traits.hasProduct |= kind == OpKind::Contraction;
    traits.hasRows |= kind == OpKind::RowReduction;
    traits.isOpaque |= !kind;
    traits.points = std::max(traits.points, points);
    traits.flops += kind ? cast<FusableOpInterface>(op).getFlops() : 0;
  }
  return traits;
}

//===- Merging -------------------------------------------------------------------------------===//

void Partition::growDown(Vertex group) {
  for (bool grown = true; grown;) {
    grown = false;
    for (Vertex consumer : graph->consumersOf(group))
      if (std::optional<Vertex> merged = tryMerge(group, consumer)) {
        group = *merged;
        grown = true;
        break;
      }
  }
}

void Partition::growUp(Vertex group) {
  for (bool grown = true; grown;) {
    grown = false;
    for (Vertex producer : llvm::reverse(graph->producersOf(group)))
      if (std::optional<Vertex> merged = tryMerge(producer, group)) {
        group = *merged;
        grown = true;
        break;
      }
  }
}

std::optional<OpGraph::Vertex> Partition::tryMerge(Vertex producer, Vertex consumer) {
  // Asked once for the groups as they are.
  auto sizes = std::make_pair(graph->opsOf(producer).size(), graph->opsOf(consumer).size());
  if (auto asked = refusedSizes.find({producer, consumer}); asked != refusedSizes.end() && asked->second == sizes)
    return std::nullopt;
  SmallVector<Vertex> closed = graph->closure(producer, consumer);
  FusionDecision decision = mayMerge(closed);
  if (decision)
    return graph->merge(closed);
  refusedSizes[{producer, consumer}] = sizes;
  refused[{mainOp(graph->opsOf(producer)), mainOp(graph->opsOf(consumer))}] = decision.reason();
  return std::nullopt;
}

FusionDecision Partition::mayMerge(ArrayRef<Vertex> closed) const {
  // More than a few ops between the two are another part of the model, not a diamond.
  constexpr size_t largestClosure = 8;
  if (closed.size() > largestClosure)
    return FusionDecision::no("other kernels lie between them: as one they would form a cycle");
  SmallVector<Operation *> members;
  Traits consumer = traitsOf(graph->opsOf(closed.back()));
  for (Vertex group : closed) {
    members.append(graph->opsOf(group).begin(), graph->opsOf(group).end());
    if (group == closed.back())
      continue;
    FusionDecision decision = mayJoin(traitsOf(graph->opsOf(group)), consumer);
    if (!decision)
      return group == closed.front()
                 ? decision
                 : FusionDecision::no("as one they would form a cycle with " + nameOf(mainOp(graph->opsOf(group))));
  }
  llvm::sort(members, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return accepts(members);
}

/// Rules that need no template.
FusionDecision Partition::mayJoin(const Traits &producer, const Traits &consumer) const {
  if (producer.isOpaque || consumer.isOpaque)
    return FusionDecision::no("attention is one kernel by itself");
  if (producer.hasProduct && consumer.hasProduct)
    return FusionDecision::no("a kernel computes one matrix product");
  if (consumer.hasProduct)
    return FusionDecision::no("a product reads its operands many times, so they are computed before");
  if (producer.hasProduct && consumer.hasRows)
    return FusionDecision::no("the consumer needs whole rows, a product's kernel holds tiles of them");
  if (consumer.points <= producer.points)
    return FusionDecision::yes();
  // Computing the producer again for each element that reads it must cost less than a launch.
  double again = static_cast<double>(producer.flops) *
                 (static_cast<double>(consumer.points) / static_cast<double>(producer.points) - 1);
  if (!producer.hasRows && again / model.target().f32FlopsPerUs > model.target().launchUs)
    return FusionDecision::no("the producer would be computed " + std::to_string(consumer.points / producer.points) +
                              " times over");
  return FusionDecision::yes();
}

std::vector<FusionRefusal> Partition::refusals() const {
  std::map<std::pair<Vertex, Vertex>, FusionRefusal> byPair;
  for (const auto &[ops, reason] : refused) {
    Vertex producer = graph->groupOf(ops.first), consumer = graph->groupOf(ops.second);
    if (producer != consumer && llvm::is_contained(graph->consumersOf(producer), consumer))
      byPair[{producer, consumer}] = {nameOf(ops.first), nameOf(ops.second), reason};
  }
  std::vector<FusionRefusal> list;
  for (auto &[pair, refusal] : byPair)
    list.push_back(std::move(refusal));
  return list;
}

} // namespace kfuse::passes
