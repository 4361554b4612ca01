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

  bool holds(Vertex group, OpKind kind) const {
    return llvm::any_of(graph.opsOf(group), [kind](Operation *op) {
      auto fusable = dyn_cast<FusableOpInterface>(op);
      return fusable && fusable.getOpKind() == kind;
    });
  }
  /// A product or a norm; a chain of two needs a product.
  bool holdsAnchor(Vertex group) const {
    return holds(group, OpKind::Contraction) || holds(group, OpKind::RowReduction);
  }
  bool reducesRowsOfProduct(Vertex group) const {
    return holds(group, OpKind::Contraction) && holds(group, OpKind::RowReduction);
  }

  RegionCost costOf(ArrayRef<Vertex> groups) {
    if (groups.size() == 1)
      return costs.of(graph.opsOf(groups.front()));
    SmallVector<SmallVector<Operation *>> links;
    for (Vertex group : groups)
      links.emplace_back(graph.opsOf(group));
    return costs.of(regions.chain(links));
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
    // Of 20 layers of 256 x 1024 x 1024 and a last one an H200 takes 71 us as a chain and 76 apart where 68 and 95 are
    // estimated; of five times 256 rows 165 and 137 where it is 138 and 146. So it must win by more than that. Large
    // layers that reduce their own rows are the same tiles in both, and so are their estimates' errors.
    constexpr double smallUs = 50;
    const bool isLarge = apart >= smallUs * static_cast<double>(groups.size());
    const bool isAlike = llvm::all_of(groups, [&](Vertex group) { return reducesRowsOfProduct(group); });
    const double most = isLarge && isAlike ? 0.97 : 0.75;
    return together.decision && together.us < most * apart;
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
