#include "passes/fuse/LongRuns.h"

#include "passes/fuse/Groups.h"
#include "passes/fuse/Merging.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Elementwise ops, each read by few, of as many elements as `reader` computes, or joined by it.
bool mayJoinRun(ArrayRef<Operation *> producers, Operation *reader, const ValueReaders &readers) {
  return llvm::all_of(producers, [&](Operation *op) {
    auto found = readers.find(op->getResult(0));
    bool isRead = found == readers.end() || found->second.size() <= mostSiblings;
    return isRead && kindOf(op) == OpKind::Pointwise &&
           (isa<ConcatOp>(reader) || elementsIn(dimsOf(op->getResult(0))) == elementsIn(dimsOf(reader->getResult(0))));
  });
}

} // namespace

void mergeLongRuns(OpGraph &graph, RegionCosts &costs, const ValueReaders &readers) {
  constexpr size_t longRun = 13; // The largest of known models' kernels has 12 ops.
  const SmallVector<OpGraph::Vertex> order = graph.order();
  if (order.size() < largeGraph)
    return;
  auto joinsRuns = [](Operation *op) { return kindOf(op) == OpKind::Pointwise || isa<ConcatOp>(op); };
  for (OpGraph::Vertex single : order) {
    Operation *op = graph.opsOf(single).front();
    if (!joinsRuns(op))
      continue;
    OpGraph::Vertex group = single;
    const SmallVector<OpGraph::Vertex> producers = graph.producersOf(group);
    for (OpGraph::Vertex producer : llvm::reverse(producers))
      if (mayJoinRun(graph.opsOf(producer), op, readers) &&
          sizeOf(graph.opsOf(producer)) + sizeOf(graph.opsOf(group)) <= largestRegion)
        if (SmallVector<OpGraph::Vertex> closed = graph.closure({producer, group}); closed.size() == 2)
          group = graph.merge(closed);
  }
  for (OpGraph::Vertex group : graph.order()) {
    const SmallVector<Operation *> ops(graph.opsOf(group));
    if (ops.size() == 1)
      continue;
    double apart = 0;
    for (Operation *op : ops)
      apart += costs.of(op).us;
    if (ops.size() >= longRun && costs.of(graph.opsOf(group)).us < apart)
      continue;
    SmallVector<SmallVector<Operation *>> singles;
    for (Operation *op : ops)
      singles.push_back({op});
    graph.split(group, singles);
  }
}

} // namespace kfuse::passes
