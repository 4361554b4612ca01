#include "passes/fuse/Refusals.h"

#include "passes/fuse/Groups.h"
#include "passes/fuse/OpNames.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

using Vertex = OpGraph::Vertex;

/// Whether there are two products, of one left operand, which a kernel may compute.
bool areGateAndUp(ArrayRef<Operation *> above, ArrayRef<Operation *> below) {
  auto products = [](ArrayRef<Operation *> ops) {
    return llvm::count_if(ops, [](Operation *op) { return kindOf(op) == OpKind::Contraction; });
  };
  return products(above) == 1 && products(below) == 1 && mainOp(above)->getOperand(0) == mainOp(below)->getOperand(0);
}

/// Why no kernel takes the attention of which both are parts; nothing where they are not.
std::string whyAttentionIsApart(ArrayRef<Operation *> above, ArrayRef<Operation *> below) {
  auto numberOf = [](ArrayRef<Operation *> ops) {
    for (Operation *op : ops)
      if (auto number = op->getAttrOfType<IntegerAttr>(attentionAttrName))
        return number;
    return IntegerAttr();
  };
  const IntegerAttr number = numberOf(above);
  auto function = above.front()->getParentOfType<func::FuncOp>();
  auto reasons = function ? function->getAttrOfType<ArrayAttr>(attentionRefusalsAttrName) : ArrayAttr();
  if (!number || number != numberOf(below) || !reasons || number.getInt() >= static_cast<int64_t>(reasons.size()))
    return "";
  return "no kernel takes this attention whole: " +
         cast<StringAttr>(reasons[static_cast<size_t>(number.getInt())]).getValue().str();
}

std::string whyApart(Vertex producer, Vertex consumer, const OpGraph &graph, const RegionBuilder &regions,
                     RegionCosts &costs) {
  const ArrayRef<Operation *> above = graph.opsOf(producer), below = graph.opsOf(consumer);
  if (sizeOf(above) + sizeOf(below) > largestRegion)
    return "a kernel has " + std::to_string(largestRegion) +
           " ops at most, so that planning and compiling take no longer";
  const SmallVector<Vertex> closed = graph.closure({producer, consumer});
  if (hasKind(above, std::nullopt) || hasKind(below, std::nullopt))
    return "a kernel of attention computes its queries and what it writes into its states, and nothing else but the "
           "order of its result";
  if (std::string reason = whyAttentionIsApart(above, below); !reason.empty())
    return reason;
  const bool areProducts = hasKind(above, OpKind::Contraction) && hasKind(below, OpKind::Contraction);
  if (areProducts && !areGateAndUp(above, below)) {
    const SmallVector<SmallVector<Operation *>> layers{SmallVector<Operation *>(above),
                                                       SmallVector<Operation *>(below)};
    const bool isChain = closed.size() == 2 && costs.of(regions.chain(layers)).decision;
    return std::string("a kernel computes one matrix product, or two of one left operand") +
           (isChain ? "; a chain of them is estimated slower" : "");
  }
  if (closed.size() > largestClosure)
    return "other kernels lie between them: as one they would form a cycle";
  const RegionCost &together = costs.of(opsOf(graph, closed));
  if (together.decision)
    return "estimated slower as one kernel";
  if (hasKind(above, OpKind::Contraction) && hasKind(below, OpKind::RowReduction))
    return "the consumer needs whole rows, a product's kernel holds tiles of them";
  if (hasKind(above, OpKind::RowReduction) && hasKind(below, OpKind::Contraction))
    return operandsComputedBefore;
  if (closed.size() > 2)
    return "as one they would form a cycle with " + nameOf(mainOp(graph.opsOf(closed[1])));
  return together.decision.reason();
}

} // namespace

std::vector<FusionRefusal> refusalsOf(const OpGraph &graph, ArrayRef<Launched> launches, const RegionBuilder &regions,
                                      RegionCosts &costs) {
  llvm::DenseMap<Vertex, size_t> launchOf;
  for (auto [number, launch] : llvm::enumerate(launches))
    for (const LayerGroups &layer : launch.layers)
      for (Vertex group : layer)
        launchOf[group] = number;
  std::vector<FusionRefusal> list;
  for (Vertex producer : graph.order())
    for (Vertex consumer : graph.consumersOf(producer))
      if (launchOf.at(producer) != launchOf.at(consumer))
        list.push_back({nameOf(mainOp(graph.opsOf(producer))), nameOf(mainOp(graph.opsOf(consumer))),
                        whyApart(producer, consumer, graph, regions, costs)});
  return list;
}

} // namespace kfuse::passes
