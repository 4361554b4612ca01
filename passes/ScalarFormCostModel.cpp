#include "passes/ScalarFormCostModel.h"

#include "ir/IndexMath.h"
#include "ir/RegionScalars.h"
#include "ir/dialect/Kfuse.h"

using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// A load whose address is linear in the iteration space and is always taken.
bool isStridedLoad(const ScalarGraph &graph, Scalar operand) {
  const ScalarNode &load = graph[operand];
  return load.kind == ScalarNode::Kind::Load && load.guards.empty() &&
         isStrided(load.map, graph.inputs[load.input].shape, graph.domain.extents);
}

} // namespace

FusionDecision ScalarFormCostModel::accepts(mlir::Block &region) {
  Result<ScalarGraph> graph = scalariseRegion(region);
  if (!graph)
    return FusionDecision::no(graph.error().message);
  if (graph->domain.contractionDim >= 0 && graph->domain.reductionDim >= 0)
    return FusionDecision::no("a product's kernel holds tiles of rows, a reduction needs them whole");
  for (const ScalarNode &node : graph->nodes)
    if (node.kind == ScalarNode::Kind::Contract)
      for (Scalar operand : node.operands)
        if (!isStridedLoad(*graph, operand))
          return FusionDecision::no("a product reads its operands with strides, as they lie in memory");
  return FusionDecision::yes();
}

KernelCost ScalarFormCostModel::cost(mlir::Block &region) const {
  KernelCost cost;
  for (mlir::Value input : region.getArguments())
    cost.bytes += static_cast<double>(bytesOf(input));
  for (mlir::Value output : region.getTerminator()->getOperands())
    cost.bytes += static_cast<double>(bytesOf(output));
  cost.us = device.launchUs + cost.bytes / device.memoryBytesPerUs;
  return cost;
}

} // namespace kfuse::passes
