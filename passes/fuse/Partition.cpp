#include "passes/fuse/Partition.h"

#include "ir/FirstError.h"
#include "passes/fuse/Groups.h"
#include "passes/fuse/LayoutPlan.h"
#include "passes/fuse/LongRuns.h"
#include "passes/fuse/Merging.h"
#include "passes/fuse/MinCut.h"
#include "passes/fuse/Refusals.h"
#include "passes/fuse/SharedLaunches.h"

#include "mlir/IR/Diagnostics.h"

#include <algorithm>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Only a value's first `mostReaders` readers are considered: its region holds fewer.
constexpr size_t mostReaders = 2 * largestRegion;

SmallVector<Operation *> anchorsOf(ArrayRef<Operation *> ops, Operation *otherwise) {
  SmallVector<Operation *> anchors;
  for (Operation *op : ops)
    if (auto kind = kindOf(op); kind == OpKind::Contraction || kind == OpKind::RowReduction)
      anchors.push_back(op);
  return anchors.empty() ? SmallVector<Operation *>{otherwise} : anchors;
}

} // namespace

Partition::Partition(Block &block, const CostModel &model)
    : block(block), transparency(block), regions(transparency), costs(regions, model),
      windows(transparency, regions, model) {
  for (auto update : block.getOps<StateUpdateOp>())
    readByUpdates.insert(update->operand_begin(), update->operand_end());
  for (Value value : block.getTerminator()->getOperands())
    while (returned.insert(value).second)
      if (auto reshape = value.getDefiningOp<ReshapeOp>())
        value = reshape.getOperand();
}

LogicalResult Partition::run() {
  LayoutPlan layout(block, transparency, regions, costs);
  if (failed(layout.run()))
    return failure();
  buildGraph(layout.units());
  if (failed(orderStateUpdates(layout.units())))
    return failure();
  unfused = totals();

  mergeLongRuns(*graph, costs, readers);
  for (Vertex group : graph->order())
    considerAround(group);
  mergeAll();
  // Each round begins where the last one ended; few graphs change in the second.
  constexpr int mostRounds = 4;
  for (int round = 0; round < mostRounds; ++round) {
    const bool recomputed = recompute(), searched = searchWindows(), cutAgain = recut();
    if (!recomputed && !searched && !cutAgain)
      break;
    mergeAll();
  }
  shareLaunches(*graph, costs);
  return success();
}

void Partition::formChains() { launched = passes::formChains(*graph, regions, costs); }

BuiltRegion Partition::regionOf(ArrayRef<LayerGroups> layers) const {
  return passes::regionOf(*graph, regions, layers);
}

//===- The graph -----------------------------------------------------------------------------===//

void Partition::buildGraph(ArrayRef<Operation *> units) {
  graph.emplace(units);
  for (Operation *unit : units)
    for (Value operand : unit->getOperands())
      transparency.forEachSource(operand, [&](Value source) {
        Operation *producer = source.getDefiningOp();
        if (producer && isa<ConstantOp>(producer))
          return;
        if (producer)
          graph->addEdge(producer, unit);
        SmallVector<Operation *> &sourceReaders = readers[source];
        if (sourceReaders.empty() || sourceReaders.back() != unit) // Units come one by one.
          sourceReaders.push_back(unit);
      });
}

/// Whoever reads a state's old value runs before its update.
LogicalResult Partition::orderStateUpdates(ArrayRef<Operation *> units) {
  for (Operation *unit : units)
    if (auto update = dyn_cast<StateUpdateOp>(unit))
      for (Operation *reader : readers[peelReshapes(update.getState())])
        graph->addEdge(reader, unit);
  if (graph->sort())
    return success();
  for (Operation *unit : units)
    if (isa<StateUpdateOp>(unit))
      return unit->emitError() << "the state's old value is needed together with its new one, which overwrites it";
  return emitInternalError(units.front()) << "the kernels of its block need each other";
}

//===- Merging -------------------------------------------------------------------------------===//

/// Merges what saves most until nothing saves.
void Partition::mergeAll() {
  while (!merges.empty()) {
    Merge merge = merges.top();
    merges.pop();
    bool isGone = graph->opsOf(merge.a).empty() || graph->opsOf(merge.b).empty();
    if (isGone)
      continue;
    // The groups may have changed since.
    SmallVector<Vertex> closed = graph->closure({merge.a, merge.b});
    double saved = savedBy(closed, *graph, costs);
    if (saved > merge.savedUs - worthUs)
      considerAround(graph->merge(closed));
    else if (saved > worthUs)
      merges.push({merge.rank, merge.first, saved, merge.a, merge.b});
  }
}

void Partition::considerAround(Vertex group) {
  auto isAmongFirst = [&](Vertex producer) {
    return graph->consumerCount(producer) <= mostReaders ||
           llvm::is_contained(graph->firstConsumersOf(producer, mostReaders), group);
  };
  for (Vertex producer : nearProducersOf(group))
    if (isAmongFirst(producer))
      consider(producer, group);
  for (Vertex consumer : nearConsumersOf(group))
    consider(group, consumer);
  for (Vertex sibling : siblingsOf(group))
    consider(group, sibling);
}

SmallVector<OpGraph::Vertex> Partition::nearConsumersOf(Vertex group) const {
  if (graph->consumerCount(group) > mostReaders)
    return graph->firstConsumersOf(group, mostNeighbours);
  SmallVector<Vertex> consumers = graph->consumersOf(group);
  consumers.truncate(std::min(consumers.size(), mostNeighbours));
  return consumers;
}

SmallVector<OpGraph::Vertex> Partition::nearProducersOf(Vertex group) const {
  const SmallVector<Vertex> producers = graph->producersOf(group);
  return SmallVector<Vertex>(ArrayRef(producers).take_back(std::min(producers.size(), mostNeighbours)));
}

void Partition::consider(Vertex a, Vertex b) {
  if (sizeOf(graph->opsOf(a)) + sizeOf(graph->opsOf(b)) > largestRegion)
    return;
  SmallVector<Vertex> closed = graph->closure({a, b});
  double saved = savedBy(closed, *graph, costs);
  if (saved <= worthUs)
    return;
  bool isFed = closed.size() > 2 || graph->isReachable(closed.front(), closed.back());
  const SmallVector<Operation *> ops = opsOf(*graph, closed);
  Operation *main = mainOp(ops);
  bool hasProduct = kindOf(main) == OpKind::Contraction, hasRows = kindOf(main) == OpKind::RowReduction;
  // Attention that writes into the state that it reads finds the rest there before the kernel ahead ends.
  bool attendsToItsUpdate = llvm::any_of(ops, [&](Operation *op) {
    return isa<StateUpdateOp>(op) && llvm::any_of(readers.lookup(op->getResult(0)), [&](Operation *reader) {
             return isa<AttentionOp>(reader) && llvm::is_contained(ops, reader);
           });
  });
  int rank = !isFed ? 0 : attendsToItsUpdate ? 4 : hasProduct ? 3 : hasRows ? 2 : 1;
  merges.push({rank, hasProduct || hasRows ? graph->numberOf(main) : 0, saved, a, b});
}

/// Other groups that read what `group` reads.
SmallVector<OpGraph::Vertex> Partition::siblingsOf(Vertex group) const {
  SmallVector<Vertex> siblings;
  for (Operation *op : graph->opsOf(group))
    for (Value operand : op->getOperands())
      transparency.forEachSource(operand, [&](Value source) {
        auto found = readers.find(source);
        if (found == readers.end() || found->second.size() > mostSiblings)
          return;
        for (Operation *reader : found->second)
          if (Vertex other = graph->groupOf(reader); other != group && !llvm::is_contained(siblings, other))
            siblings.push_back(other);
      });
  return siblings;
}

//===- Corrections ---------------------------------------------------------------------------===//

/// A hundredth of the kernels' time; where neither launches nor bytes become fewer four of them, or half a launch if
/// that is less: the rest is the estimates' noise.
bool Partition::isBetter(const Spent &then, const Spent &now) const {
  constexpr double part = 0.01, noisyPart = 0.04;
  bool savesMore = then.launches < now.launches || then.bytes < now.bytes * (1 - part);
  double noise = savesMore ? 0 : std::min(now.us * noisyPart, costs.costModel().target().launchUs / 2);
  return then.us < now.us - std::max(now.us * part, noise);
}

bool Partition::searchWindows() {
  bool changed = false;
  for (Vertex group : graph->order())
    changed |= !graph->opsOf(group).empty() && searchAround(group);
  return changed;
}

/// A group and its neighbours, the nearest first, while they are few and no other group lies between.
SmallVector<OpGraph::Vertex> Partition::windowAround(Vertex group) const {
  SmallVector<Vertex> window{group};
  for (bool grown = true; grown;) {
    grown = false;
    for (Vertex member : SmallVector<Vertex>(window)) {
      if (window.size() == largestWindow)
        return window;
      SmallVector<Vertex> neighbours = nearConsumersOf(member);
      llvm::append_range(neighbours, nearProducersOf(member));
      llvm::append_range(neighbours, siblingsOf(member));
      for (Vertex neighbour : neighbours) {
        if (window.size() == largestWindow || llvm::is_contained(window, neighbour))
          continue;
        SmallVector<Vertex> wider(window);
        wider.push_back(neighbour);
        wider = graph->closure(wider);
        if (wider.size() > largestWindow)
          continue;
        const SmallVector<Operation *> ops = opsOf(*graph, wider);
        if (ops.size() > largestWindow || sizeOf(ops) > largestRegion)
          continue;
        window = wider;
        grown = true;
      }
    }
  }
  return window;
}

bool Partition::searchAround(Vertex group) {
  if (graph->opsOf(group).size() > largestWindow || sizeOf(graph->opsOf(group)) > largestRegion)
    return false;
  SmallVector<Vertex> window = windowAround(group);
  SmallVector<Operation *> ops = opsOf(*graph, window);
  if (ops.size() < 2)
    return false;
  Spent now;
  for (Vertex member : window)
    now += spent(costOf(member));
  const WindowPartition &best = windows.best(ops, [&](Operation *op) { return mayRecompute(op); });
  if (!isBetter(best.spent, now))
    return false;
  for (unsigned i : best.recomputed)
    recompute(ops[i]);
  llvm::erase_if(window, [&](Vertex member) { return graph->opsOf(member).empty(); });
  SmallVector<SmallVector<Operation *>> parts;
  for (const SmallVector<unsigned> &region : best.regions) {
    parts.emplace_back();
    for (unsigned i : region)
      parts.back().push_back(ops[i]);
  }
  for (Vertex part : graph->split(graph->merge(window), parts))
    considerAround(part);
  return true;
}

/// Windows do this too, together with other changes, but only among a few ops.
bool Partition::recompute() {
  bool changed = false;
  for (Vertex group : graph->order())
    for (Operation *op : SmallVector<Operation *>(graph->opsOf(group))) {
      // With one reader this is a merge or a cut; with none outside there is nothing to store.
      auto found = readers.find(op->getResult(0));
      if (found == readers.end() || found->second.size() < 2 ||
          llvm::all_of(found->second, [&](Operation *reader) { return graph->groupOf(reader) == group; }) ||
          !mayRecompute(op))
        continue;
      changed |= tryRecompute(op) || tryRecompute(coneOf(op));
    }
  return changed;
}

/// `op` and what it is computed from in its group, as far as that may be computed again; `op` first.
SmallVector<Operation *> Partition::coneOf(Operation *op) const {
  SmallVector<Operation *> cone{op};
  for (size_t i = 0; i < cone.size(); ++i)
    for (Value operand : cone[i]->getOperands())
      transparency.forEachSource(operand, [&](Value source) {
        Operation *producer = source.getDefiningOp();
        bool isInGroup = producer && llvm::is_contained(graph->opsOf(graph->groupOf(op)), producer);
        if (isInGroup && mayRecompute(producer) && !llvm::is_contained(cone, producer))
          cone.push_back(producer);
      });
  return cone;
}

/// Ops of one group.
bool Partition::tryRecompute(ArrayRef<Operation *> ops) {
  Vertex group = graph->groupOf(ops.front());
  SmallVector<Vertex> consumers = graph->consumersOf(group);
  constexpr size_t mostComputing = 1024; // Each is priced; what so many read is better stored.
  auto isFull = [&](Vertex consumer) { return graph->opsOf(consumer).size() + ops.size() > largestRegion; };
  if (consumers.size() > mostComputing || llvm::any_of(consumers, isFull))
    return false;
  SmallVector<Operation *> rest(graph->opsOf(group));
  llvm::erase_if(rest, [&](Operation *op) { return llvm::is_contained(ops, op); });
  Spent now = spent(costOf(group)), then;
  for (Vertex consumer : consumers)
    now += spent(costOf(consumer));

  // What a region computes again is no member of it, and what that is computed again from neither: steps that each read
  // all before them would make regions of hundreds of ops, and price each of them once a step.
  constexpr size_t mostInside = 4 * largestRegion;
  auto holdsFew = [&](Vertex consumer) {
    return regions.build(graph->opsOf(consumer)).body().getOperations().size() <= mostInside;
  };
  for (Operation *op : ops)
    transparency.absorb(op);
  const bool areSmall = llvm::all_of(consumers, holdsFew);
  RegionCosts trial(regions, costs.costModel());
  if (areSmall && !rest.empty())
    then += spent(trial.of(rest));
  if (areSmall)
    for (Vertex consumer : consumers)
      then += spent(trial.of(graph->opsOf(consumer)));
  for (Operation *op : ops)
    transparency.materialise(op);
  if (!areSmall || !isBetter(then, now))
    return false;
  for (Operation *op : ops)
    recompute(op);
  for (Vertex consumer : consumers)
    considerAround(consumer);
  if (!rest.empty())
    considerAround(group);
  return true;
}

/// Not what must be in memory, nor what reads a state that is updated later.
bool Partition::mayRecompute(Operation *op) const {
  bool isCheap = kindOf(op) == OpKind::Pointwise || kindOf(op) == OpKind::Layout;
  bool readsState = false;
  auto look = [&](Value source) { readsState |= readByUpdates.contains(peelReshapes(source)); };
  for (Value operand : op->getOperands()) {
    look(operand);
    transparency.forEachSource(operand, look);
  }
  return isCheap && !readsState && !returned.contains(op->getResult(0));
}

/// From now on each region that reads `op` computes it.
void Partition::recompute(Operation *op) {
  transparency.absorb(op);
  graph->dissolve(op);
  costs.forget();
  SmallVector<Operation *> reading = readers.lookup(op->getResult(0));
  for (Value operand : op->getOperands())
    transparency.forEachSource(operand, [&](Value source) {
      SmallVector<Operation *> &sourceReaders = readers[source];
      llvm::erase(sourceReaders, op);
      for (Operation *reader : reading)
        if (!llvm::is_contained(sourceReaders, reader))
          sourceReaders.push_back(reader);
    });
}

/// Cuts neighbours again that are too large for a window: greedy merging may have drawn the line where many
/// bytes cross.
bool Partition::recut() {
  bool changed = false;
  for (Vertex upper : graph->order())
    for (Vertex lower : nearConsumersOf(upper))
      if (recut(upper, lower)) {
        changed = true;
        break; // The neighbours are others now.
      }
  return changed;
}

bool Partition::recut(Vertex upper, Vertex lower) {
  if (graph->opsOf(upper).size() + graph->opsOf(lower).size() <= largestWindow)
    return false;
  SmallVector<Vertex> closed = graph->closure({upper, lower});
  if (closed.size() != 2)
    return false;
  SmallVector<Operation *> ops = opsOf(*graph, closed);
  bool updatesState = llvm::any_of(ops, [](Operation *op) { return isa<StateUpdateOp>(op); });
  if (updatesState) // A cut knows no order but that of data.
    return false;
  ArrayRef<Operation *> above = graph->opsOf(upper), below = graph->opsOf(lower);
  Cut cut = minCut(ops, anchorsOf(above, above.front()), anchorsOf(below, below.back()), transparency);
  if (cut.upper.empty() || cut.lower.empty())
    return false;
  Spent now = spent(costOf(upper)), then = spent(costs.of(cut.upper));
  now += spent(costOf(lower));
  then += spent(costs.of(cut.lower));
  if (!isBetter(then, now))
    return false;
  for (Vertex part : graph->split(graph->merge(closed), {cut.upper, cut.lower}))
    considerAround(part);
  return true;
}

//===- Reports -------------------------------------------------------------------------------===//

FusionTotals Partition::totals() {
  Spent all;
  if (launched.empty())
    for (Vertex group : graph->order())
      all += spent(costOf(group));
  for (const Launched &launch : launched)
    all += spent(launch.cost);
  return {all.launches, all.bytes, all.us};
}

std::vector<FusionRefusal> Partition::refusals() { return refusalsOf(*graph, launched, regions, costs); }

} // namespace kfuse::passes
