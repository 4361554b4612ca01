#include "passes/fuse/Chains.h"

#include "passes/fuse/Groups.h"

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
    const SmallVector<LayerGroups> layers = allLayers();
    for (size_t first = 0, end = 1; first < layers.size(); first = end++) {
      while (end < layers.size() && mayFollow(layers[end - 1], layers[end]))
        ++end;
      launch(ArrayRef(layers).slice(first, end - first));
    }
    return std::move(launches);
  }

private:
  SmallVector<LayerGroups> allLayers() {
    SmallVector<LayerGroups> layers;
    for (Vertex group : graph.order())
      if (!layers.empty() && layers.back().size() == 1 && isNormOf(layers.back().front(), group))
        layers.back().push_back(group);
      else
        layers.push_back({group});
    return layers;
  }

  /// Whether `group` is a norm of the product's rows that one kernel can compute with it.
  bool isNormOf(Vertex product, Vertex group) {
    return isFed(product, group) && holds(product, OpKind::Contraction) && !holds(group, OpKind::Contraction) &&
           holds(group, OpKind::RowReduction) && costs.of(opsOf(graph, {product, group})).decision;
  }

  /// Whether some template takes the two as a chain.
  bool mayFollow(const LayerGroups &first, const LayerGroups &second) {
    return isFed(first.back(), second.front()) && holds(first.front(), OpKind::Contraction) &&
           holds(second.front(), OpKind::Contraction) && costs.of(regionOf(graph, regions, {first, second})).decision;
  }

  bool isFed(Vertex producer, Vertex consumer) const {
    return llvm::is_contained(graph.producersOf(consumer), producer);
  }
  bool holds(Vertex group, OpKind kind) const {
    return llvm::any_of(graph.opsOf(group), [&](Operation *op) {
      auto fusable = dyn_cast<FusableOpInterface>(op);
      return fusable && fusable.getOpKind() == kind;
    });
  }

  void launch(ArrayRef<LayerGroups> layers) {
    if (layers.size() == 1) {
      for (Vertex group : layers.front())
        launches.push_back({{{group}}, costs.of(graph.opsOf(group))});
      return;
    }
    const RegionCost together = costs.of(regionOf(graph, regions, layers));
    if (isFaster(together, layers)) {
      launches.push_back({SmallVector<LayerGroups>(layers), together});
      return;
    }
    launch(layers.take_front(layers.size() / 2));
    launch(layers.drop_front(layers.size() / 2));
  }

  bool isFaster(const RegionCost &together, ArrayRef<LayerGroups> layers) {
    double apart = 0;
    for (const LayerGroups &layer : layers)
      for (Vertex group : layer)
        apart += costs.of(graph.opsOf(group)).us;
    return together.decision && together.us < together.profitabilityThreshold * apart;
  }

  const OpGraph &graph;
  const RegionBuilder &regions;
  RegionCosts &costs;
  std::vector<Launched> launches;
};

} // namespace

BuiltRegion regionOf(const OpGraph &graph, const RegionBuilder &regions, ArrayRef<LayerGroups> layers) {
  if (layers.size() == 1)
    return regions.build(opsOf(graph, layers.front()));
  SmallVector<SmallVector<Operation *>> members;
  for (const LayerGroups &layer : layers)
    members.push_back(opsOf(graph, layer));
  return regions.chain(members);
}

std::vector<Launched> formChains(const OpGraph &graph, const RegionBuilder &regions, RegionCosts &costs) {
  return ChainSearch(graph, regions, costs).run();
}

} // namespace kfuse::passes
