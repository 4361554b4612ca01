#include "passes/fuse/SharedLaunches.h"

#include "passes/fuse/Groups.h"
#include "passes/fuse/Merging.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {

void shareLaunches(OpGraph &graph, RegionCosts &costs) {
  constexpr size_t mostRecent = 4;
  constexpr double mostLaunches = 4; // Larger ones, together, are worth their launches.
  constexpr size_t mostSharing = 8;  // No template takes more; asking for each would be most of the time.
  costs.allowSharing();
  SmallVector<OpGraph::Vertex> recent, inRow;
  llvm::DenseMap<OpGraph::Vertex, size_t> sharing; // Kernels in a launch, where more than one.
  auto mayShare = [&](OpGraph::Vertex group) {
    bool isSmall = costs.of(graph.opsOf(group)).us < mostLaunches * costs.costModel().target().launchUs;
    return isSmall && !hasKind(graph.opsOf(group), OpKind::Contraction);
  };
  // Where there are thousands in a row, what one launch takes is tried at once first: one by one prices each launch
  // eight times.
  if (SmallVector<OpGraph::Vertex> order = graph.order(); order.size() >= largeGraph)
    for (OpGraph::Vertex group : order) {
      if (mayShare(group))
        inRow.push_back(group);
      if (inRow.size() < mostSharing)
        continue;
      SmallVector<OpGraph::Vertex> closed = graph.closure(inRow);
      if (closed.size() == mostSharing && savedBy(closed, graph, costs) > worthUs)
        sharing[graph.merge(closed)] = mostSharing;
      inRow.clear();
    }
  for (OpGraph::Vertex group : graph.order()) {
    if (sharing.contains(group) || !mayShare(group))
      continue;
    auto *taker = llvm::find_if(recent, [&](OpGraph::Vertex other) {
      SmallVector<OpGraph::Vertex> closed = graph.closure({other, group});
      return closed.size() == 2 && savedBy(closed, graph, costs) > worthUs;
    });
    if (taker != recent.end()) {
      const size_t all = std::max<size_t>(sharing.lookup(*taker), 1) + 1;
      *taker = graph.merge(graph.closure({*taker, group}));
      sharing[*taker] = all;
      if (all == mostSharing)
        recent.erase(taker);
    } else {
      recent.insert(recent.begin(), group);
    }
    recent.resize(std::min(recent.size(), mostRecent));
  }
}

} // namespace kfuse::passes
