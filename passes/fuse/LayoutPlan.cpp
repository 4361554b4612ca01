#include "passes/fuse/LayoutPlan.h"

#include "ir/IndexMath.h"
#include "ir/RegionScalars.h"
#include "passes/fuse/OpNames.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

bool readsWithStrides(Block &body) {
  Result<ScalarGraph> graph = scalariseRegion(body);
  return graph && llvm::all_of(graph->nodes, [&](const ScalarNode &node) {
           return node.kind != ScalarNode::Kind::Load ||
                  (node.guards.empty() && isStrided(node.map, graph->inputs[node.input].shape, graph->domain.extents));
         });
}

/// An attention, which has two scalar forms, writes each head's elements as they are (codegen::Region).
bool writesWithStrides(Block &body) {
  if (!body.getOps<AttentionOp>().empty())
    return true;
  Result<ScalarGraph> graph = scalariseRegion(body);
  return graph && llvm::all_of(graph->outputs, [&](const ScalarOutput &output) {
           return isStrided(output.map, output.shape, graph->domain.extents);
         });
}

} // namespace

LogicalResult LayoutPlan::run() {
  materialiseReturned();
  boundLayout();
  for (Operation &op : block.without_terminator())
    if (!transparency.isTransparent(&op) && !isa<ConstantOp>(op) && failed(decide(&op)))
      return failure();
  llvm::sort(found, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  costs.forget();
  return success();
}

/// What the function returns must be in memory.
void LayoutPlan::materialiseReturned() {
  for (Value returned : block.getTerminator()->getOperands())
    if (Operation *op = peelReshapes(returned).getDefiningOp(); op && !isa<ConstantOp>(op))
      transparency.materialise(op);
}

/// Every region that reads layout computes all its addresses: where that is more than any model's layout is, or one
/// view upon the other for long, the largest part is written to memory.
void LayoutPlan::boundLayout() {
  constexpr size_t mostOps = 128, mostDepth = 16;
  struct Extent {
    size_t ops = 0, depth = 0;
  };
  llvm::DenseMap<Operation *, Extent> extents; // The extents of transparent ops.
  for (Operation &op : block.without_terminator()) {
    auto extentOf = [&](Value operand) { return extents.lookup(peelReshapes(operand).getDefiningOp()); };
    SmallVector<Value> largestFirst(op.getOperands());
    llvm::sort(largestFirst, [&](Value a, Value b) { return extentOf(a).ops > extentOf(b).ops; });
    Extent all{std::max(op.getNumOperands(), 1U), 1};
    for (Value operand : largestFirst)
      all.ops += extentOf(operand).ops;
    for (Value operand : largestFirst) {
      const Extent part = extentOf(operand);
      if (part.ops > 0 && (all.ops > mostOps || part.depth == mostDepth)) {
        Operation *layout = peelReshapes(operand).getDefiningOp();
        transparency.materialise(layout);
        extents.erase(layout);
        all.ops -= part.ops;
      }
      all.depth = std::max(all.depth, extentOf(operand).depth + 1);
    }
    if (transparency.isTransparent(&op))
      extents[&op] = all;
  }
}

/// Transparency changes all the time here: nothing is kept.
RegionCost LayoutPlan::costOf(ArrayRef<Operation *> members) const {
  return RegionCosts(regions, costs.costModel()).of(members);
}

/// Decides, for the layout in front of one op, what its region absorbs and what is written to memory
/// first; `op` becomes a unit.
LogicalResult LayoutPlan::decide(Operation *op) {
  if (!decided.insert(op).second)
    return success();
  FusionDecision decision = costOf(op).decision;
  if (!decision) {
    if (FusionDecision withCopies = materialiseOperands(op))
      decision = withCopies;
  } else if (auto fusable = dyn_cast<FusableOpInterface>(op); fusable && fusable.getOpKind() == OpKind::Contraction) {
    preferStoredOperands(op);
  }
  if (!decision)
    return op->emitError() << "no kernel template of " << costs.costModel().target().name << " takes " << nameOf(op)
                           << ": " << decision.reason();
  // Layout that is now written to memory is computed by regions of its own, before this one.
  for (Value operand : op->getOperands()) {
    SmallVector<Operation *> written;
    transparency.forEachSource(operand, [&](Value source) {
      if (source.getDefiningOp() && !isa<ConstantOp>(source.getDefiningOp()))
        written.push_back(source.getDefiningOp());
    });
    for (Operation *source : written)
      if (failed(decide(source)))
        return failure();
  }
  found.push_back(op);
  return success();
}

/// Whether the value is weights that their readers compute, moved or not: in memory they would take several times the
/// bytes that they have there.
bool LayoutPlan::isOfWeights(Value value) const {
  Operation *op = peelReshapes(value).getDefiningOp();
  if (auto computed = dyn_cast_or_null<FusableOpInterface>(op); computed && computed.isComputedByReaders())
    return fixed.contains(computed->getOperand(0));
  return transparency.isTransparent(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) { return isOfWeights(operand); });
}

/// The layout in front of an operand that may be written to memory: below what would hold an element several times, as
/// windows do. Null where there is none.
Operation *LayoutPlan::storableIn(Value operand) const {
  if (isOfWeights(operand))
    return nullptr;
  Operation *top = peelReshapes(operand).getDefiningOp();
  for (Operation *op = top; transparency.isTransparent(op) && op->getNumOperands() == 1;
       op = peelReshapes(op->getOperand(0)).getDefiningOp())
    if (auto layout = dyn_cast<FusableOpInterface>(op); layout && layout.readsOverlap())
      top = peelReshapes(op->getOperand(0)).getDefiningOp();
  return transparency.isTransparent(top) ? top : nullptr;
}

/// The refused op reads one operand's layout from memory, then several, until a template takes it: below windows, and
/// windows only where nothing else helps.
FusionDecision LayoutPlan::materialiseOperands(Operation *op) {
  SmallVector<Operation *> layouts;
  auto consider = [&](Operation *layout) {
    if (transparency.isTransparent(layout) && !llvm::is_contained(layouts, layout))
      layouts.push_back(layout);
  };
  for (Value operand : op->getOperands())
    consider(storableIn(operand));
  for (Value operand : op->getOperands())
    if (!isOfWeights(operand))
      consider(peelReshapes(operand).getDefiningOp());
  for (Operation *layout : layouts) {
    transparency.materialise(layout);
    if (costOf(op).decision)
      return FusionDecision::yes();
    transparency.absorb(layout);
  }
  for (Operation *layout : layouts)
    transparency.materialise(layout);
  return costOf(op).decision;
}

/// A product whose operand would be read otherwise than with plain strides may be better served by
/// memory:
/// - where the operand's producer can write it in the product's order with plain strides: heads
///   [B, H, S, D] -> [B, S, H*D] behind attention are written, not read, in their new order;
/// - where a copy and a product of plain operands cost less: keys joined from a cache and new ones.
void LayoutPlan::preferStoredOperands(Operation *product) {
  for (Value operand : product->getOperands()) {
    Operation *layout = storableIn(operand);
    BuiltRegion absorbed = regions.build(product);
    if (!layout || readsWithStrides(absorbed.body()))
      continue;
    double absorbedUs = costOf(product).us;
    transparency.materialise(layout);
    double storedUs = costOf(product).us, copyUs = costOf(layout).us;
    SmallVector<Operation *> together{layout};
    if (Operation *producer = producerOf(layout))
      together.insert(together.begin(), producer);
    bool isWritten = together.size() == 2 && costOf(product).decision && costOf(together).decision &&
                     writesWithStrides(regions.build(together).body());
    if (!isWritten && storedUs + copyUs >= absorbedUs)
      transparency.absorb(layout);
  }
}

/// The op whose result a chain of transparent layout ops moves.
Operation *LayoutPlan::producerOf(Operation *layout) const {
  Operation *producer = layout;
  do
    producer = producer->getNumOperands() == 1 ? producer->getOperand(0).getDefiningOp() : nullptr;
  while (transparency.isTransparent(producer));
  return producer && !isa<ConstantOp>(producer) ? producer : nullptr;
}

} // namespace kfuse::passes
