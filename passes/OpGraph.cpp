#include "passes/OpGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/reverse_graph.hpp>

#include <numeric>
#include <set>

using namespace mlir;

namespace kfuse::passes {

OpGraph::OpGraph(ArrayRef<Operation *> ops)
    : graph(ops.size()), members(ops.size()), position(ops.size()), sequence(ops.size()) {
  for (auto [i, op] : llvm::enumerate(ops)) {
    Vertex vertex = i;
    members[vertex] = {op};
    position[vertex] = sequence[vertex] = vertex;
    groups[op] = vertex;
    number[op] = vertex;
  }
}

void OpGraph::addEdge(Operation *from, Operation *to) {
  if (groupOf(from) != groupOf(to))
    boost::add_edge(groupOf(from), groupOf(to), graph);
}

bool OpGraph::sort() {
  std::vector<size_t> waitsFor(members.size());
  std::set<Vertex> ready; // By number, so that ops keep their order where edges leave a choice.
  for (Vertex vertex = 0; vertex < members.size(); ++vertex) {
    waitsFor[vertex] = boost::in_degree(vertex, graph);
    if (waitsFor[vertex] == 0)
      ready.insert(vertex);
  }
  sequence.clear();
  while (!ready.empty()) {
    Vertex vertex = *ready.begin();
    ready.erase(ready.begin());
    position[vertex] = sequence.size();
    sequence.push_back(vertex);
    for (Vertex consumer : llvm::make_range(boost::adjacent_vertices(vertex, graph)))
      if (--waitsFor[consumer] == 0)
        ready.insert(consumer);
  }
  return sequence.size() == members.size();
}

SmallVector<OpGraph::Vertex> OpGraph::sorted(SmallVector<Vertex> vertices) const {
  llvm::sort(vertices, [&](Vertex a, Vertex b) { return position[a] < position[b]; });
  return vertices;
}

SmallVector<OpGraph::Vertex> OpGraph::producersOf(Vertex group) const {
  auto [begin, end] = boost::inv_adjacent_vertices(group, graph);
  return sorted(SmallVector<Vertex>(begin, end));
}

SmallVector<OpGraph::Vertex> OpGraph::consumersOf(Vertex group) const {
  auto [begin, end] = boost::adjacent_vertices(group, graph);
  return sorted(SmallVector<Vertex>(begin, end));
}

SmallVector<OpGraph::Vertex> OpGraph::order() const {
  SmallVector<Vertex> alive;
  for (Vertex vertex : sequence)
    if (!members[vertex].empty())
      alive.push_back(vertex);
  return alive;
}

std::vector<bool> OpGraph::reachable(ArrayRef<Vertex> starts, bool forward, size_t first, size_t last) const {
  std::vector<boost::default_color_type> colors(members.size(), boost::white_color);
  auto colorMap = boost::make_iterator_property_map(colors.begin(), boost::get(boost::vertex_index, graph));
  auto isOutside = [&](size_t vertex, const auto &) { return position[vertex] < first || position[vertex] > last; };
  for (Vertex start : starts) {
    if (colors[start] != boost::white_color)
      continue;
    if (forward)
      boost::depth_first_visit(graph, start, boost::default_dfs_visitor(), colorMap, isOutside);
    else
      boost::depth_first_visit(boost::make_reverse_graph(graph), start, boost::default_dfs_visitor(), colorMap,
                               isOutside);
  }
  std::vector<bool> reached(members.size());
  for (size_t vertex = 0; vertex < colors.size(); ++vertex)
    reached[vertex] = colors[vertex] != boost::white_color && position[vertex] >= first && position[vertex] <= last;
  return reached;
}

SmallVector<OpGraph::Vertex> OpGraph::closure(Vertex from, Vertex to) const {
  size_t first = position[from], last = position[to];
  std::vector<bool> below = reachable(from, true, first, last), above = reachable(to, false, first, last);
  SmallVector<Vertex> closed;
  for (size_t i = first; i <= last; ++i)
    if (Vertex vertex = sequence[i]; below[vertex] && above[vertex])
      closed.push_back(vertex);
  return closed;
}

OpGraph::Vertex OpGraph::merge(ArrayRef<Vertex> closed) {
  Vertex kept = closed.front();
  size_t first = position[closed.front()], last = position[closed.back()];
  std::vector<bool> below = reachable(closed, true, first, last);

  // Within the window: what does not depend on the group, the group, what does; then the holes.
  SmallVector<Vertex> before, after, holes;
  for (size_t i = first; i <= last; ++i) {
    Vertex vertex = sequence[i];
    if (vertex == kept)
      continue;
    bool merged = llvm::is_contained(closed, vertex) || members[vertex].empty();
    (merged ? holes : below[vertex] ? after : before).push_back(vertex);
  }
  before.push_back(kept);
  before.append(after);
  before.append(holes);
  for (auto [i, vertex] : llvm::enumerate(before)) {
    sequence[first + i] = vertex;
    position[vertex] = first + i;
  }

  for (Vertex vertex : closed.drop_front()) {
    for (Vertex consumer : consumersOf(vertex))
      if (consumer != kept)
        boost::add_edge(kept, consumer, graph);
    for (Vertex producer : producersOf(vertex))
      if (producer != kept)
        boost::add_edge(producer, kept, graph);
    boost::clear_vertex(vertex, graph);
    for (Operation *op : members[vertex])
      groups[op] = kept;
    members[kept].append(members[vertex]);
    members[vertex].clear();
  }
  llvm::sort(members[kept], [&](Operation *a, Operation *b) { return number.lookup(a) < number.lookup(b); });
  return kept;
}

InterferenceGraph interferenceOf(ArrayRef<Lifetime> lifetimes) {
  InterferenceGraph graph(lifetimes.size());
  std::vector<unsigned> byFirst(lifetimes.size());
  std::iota(byFirst.begin(), byFirst.end(), 0U);
  llvm::sort(byFirst, [&](unsigned a, unsigned b) {
    return std::make_pair(lifetimes[a].first, a) < std::make_pair(lifetimes[b].first, b);
  });
  // A sweep over the steps: a value meets those that began before it and have not ended.
  std::set<std::pair<int, unsigned>> living; // (last step, value)
  for (unsigned value : byFirst) {
    while (!living.empty() && living.begin()->first < lifetimes[value].first)
      living.erase(living.begin());
    for (auto [last, other] : living)
      boost::add_edge(value, other, graph);
    living.insert({lifetimes[value].last, value});
  }
  return graph;
}

} // namespace kfuse::passes
