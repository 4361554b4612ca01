#include "passes/fuse/Merging.h"

#include "passes/fuse/Groups.h"

using namespace mlir;

namespace kfuse::passes {

double savedBy(ArrayRef<OpGraph::Vertex> closed, const OpGraph &graph, RegionCosts &costs) {
  size_t ops = 0;
  for (OpGraph::Vertex group : closed)
    ops += sizeOf(graph.opsOf(group));
  if (closed.size() > largestClosure || ops > largestRegion)
    return 0;
  double apart = 0;
  for (OpGraph::Vertex group : closed)
    apart += costs.of(graph.opsOf(group)).us;
  return apart - costs.of(opsOf(graph, closed)).us;
}

} // namespace kfuse::passes
