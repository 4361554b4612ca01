#include "passes/fuse/Chains.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

using Vertex = OpGraph::Vertex;

class ChainSearch {
public:
  ChainSearch(const OpGraph &graph, const RegionBuilder &regions, RegionCosts &costs)
      : graph(graph), regions(regions), costs(costs) {}

  std::vector<Launched> run() {
    const SmallVector<Vertex> order = graph.order();
    for (size_t first = 0, end = 1; first < order.size(); first = end++) {
      while (end < order.size() && mayFollow(order[end - 1], order[end]))
        ++end;
      launch(ArrayRef(order).slice(first, end - first));
    }
    return std::move(launches);
  }

private:
  /// Whether some template takes the two as a chain.
  bool mayFollow(Vertex first, Vertex second) {
    const bool isFed = llvm::is_contained(graph.producersOf(second), first);
    return isFed && holdsAnchor(first) && holdsAnchor(second) && costOf({first, second}).decision;
  }

  /// A product or a norm; a chain of two needs a product.
  bool holdsAnchor(Vertex group) const {
    return llvm::any_of(graph.opsOf(group), [](Operation *op) {
      auto fusable = dyn_cast<FusableOpInterface>(op);
      return fusable && (fusable.getOpKind() == OpKind::Contraction || fusable.getOpKind() == OpKind::RowReduction);
    });
  }

  RegionCost costOf(ArrayRef<Vertex> groups) {
    if (groups.size() == 1)
      return costs.of(graph.opsOf(groups.front()));
    SmallVector<SmallVector<Operation *>> layers;
    for (Vertex group : groups)
      layers.emplace_back(graph.opsOf(group));
    return costs.of(regions.chain(layers));
  }

  void launch(ArrayRef<Vertex> groups) {
    RegionCost together = costOf(groups);
    if (groups.size() == 1 || isFaster(together, groups)) {
      launches.push_back({SmallVector<Vertex>(groups), together});
      return;
    }
    launch(groups.take_front(groups.size() / 2));
    launch(groups.drop_front(groups.size() / 2));
  }

  bool isFaster(const RegionCost &together, ArrayRef<Vertex> groups) {
    double apart = 0;
    for (Vertex group : groups)
      apart += costOf(group).us;
    return together.decision && together.us < together.profitabilityThreshold * apart;
  }

  const OpGraph &graph;
  const RegionBuilder &regions;
  RegionCosts &costs;
  std::vector<Launched> launches;
};

} // namespace

std::vector<Launched> formChains(const OpGraph &graph, const RegionBuilder &regions, RegionCosts &costs) {
  return ChainSearch(graph, regions, costs).run();
}

} // namespace kfuse::passes
