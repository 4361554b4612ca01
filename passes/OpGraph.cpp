#include "passes/OpGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/reverse_graph.hpp>

#include <numeric>
#include <set>

using namespace mlir;

namespace kfuse::passes {

OpGraph::OpGraph(ArrayRef<Operation *> ops)
    : graph(ops.size()), before(ops.size()), after(ops.size()), members(ops.size()), position(ops.size()),
      sequence(ops.size()), groups(ops.size()) {
  for (auto [i, op] : llvm::enumerate(ops)) {
    Vertex vertex = i;
    members[vertex] = {op};
    position[vertex] = sequence[vertex] = groups[vertex] = vertex;
    number[op] = vertex;
  }
}

void OpGraph::addEdge(Operation *from, Operation *to) {
  if (from == to)
    return;
  before[number.lookup(to)].push_back(number.lookup(from));
  after[number.lookup(from)].push_back(number.lookup(to));
  if (groupOf(from) != groupOf(to))
    boost::add_edge(groupOf(from), groupOf(to), graph);
}

void OpGraph::reconnect(Vertex group) {
  boost::clear_vertex(group, graph);
  for (Operation *op : members[group]) {
    for (Vertex producer : before[number.lookup(op)])
      if (groups[producer] != group)
        boost::add_edge(groups[producer], group, graph);
    for (Vertex consumer : after[number.lookup(op)])
      if (groups[consumer] != group)
        boost::add_edge(group, groups[consumer], graph);
  }
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

SmallVector<OpGraph::Vertex> OpGraph::closure(ArrayRef<Vertex> among) const {
  SmallVector<Vertex> ends = sorted(SmallVector<Vertex>(among));
  size_t first = position[ends.front()], last = position[ends.back()];
  std::vector<bool> below = reachable(ends, true, first, last), above = reachable(ends, false, first, last);
  SmallVector<Vertex> closed;
  for (size_t i = first; i <= last; ++i)
    if (Vertex vertex = sequence[i]; below[vertex] && above[vertex])
      closed.push_back(vertex);
  return closed;
}

bool OpGraph::isReachable(Vertex from, Vertex to) const {
  return isBefore(from, to) && reachable(from, true, position[from], position[to])[to];
}

OpGraph::Vertex OpGraph::merge(ArrayRef<Vertex> closed) {
  Vertex kept = closed.front();
  size_t first = position[closed.front()], last = position[closed.back()];
  std::vector<bool> below = reachable(closed, true, first, last);

  // Within the window: what does not depend on the group, the group, what does; then the holes.
  SmallVector<Vertex> earlier, later, holes;
  for (size_t i = first; i <= last; ++i) {
    Vertex vertex = sequence[i];
    if (vertex == kept)
      continue;
    bool merged = llvm::is_contained(closed, vertex) || members[vertex].empty();
    (merged ? holes : below[vertex] ? later : earlier).push_back(vertex);
  }
  earlier.push_back(kept);
  earlier.append(later);
  earlier.append(holes);
  for (auto [i, vertex] : llvm::enumerate(earlier)) {
    sequence[first + i] = vertex;
    position[vertex] = first + i;
  }

  for (Vertex vertex : closed.drop_front()) {
    boost::clear_vertex(vertex, graph);
    for (Operation *op : members[vertex])
      groups[number.lookup(op)] = kept;
    members[kept].append(members[vertex]);
    members[vertex].clear();
  }
  llvm::sort(members[kept], [&](Operation *a, Operation *b) { return number.lookup(a) < number.lookup(b); });
  reconnect(kept);
  return kept;
}

void OpGraph::moveBehind(Vertex place, Vertex group) {
  size_t from = position[group], to = position[place] + (position[place] < from);
  auto at = [&](size_t i) { return sequence.begin() + static_cast<std::ptrdiff_t>(i); };
  if (from < to)
    std::rotate(at(from), at(from + 1), at(to + 1));
  else
    std::rotate(at(to), at(from), at(from + 1));
  for (size_t i = std::min(from, to); i <= std::max(from, to); ++i)
    position[sequence[i]] = i;
}

SmallVector<OpGraph::Vertex> OpGraph::split(Vertex group, ArrayRef<SmallVector<Operation *>> parts) {
  boost::clear_vertex(group, graph);
  members[group].clear();
  SmallVector<Vertex> vertices;
  Vertex place = group;
  for (const SmallVector<Operation *> &part : parts) {
    bool keepsVertex = llvm::any_of(part, [&](Operation *op) { return number.lookup(op) == group; });
    Vertex vertex = keepsVertex ? group : number.lookup(part.front());
    if (vertex != place)
      moveBehind(place, vertex);
    members[vertex].assign(part.begin(), part.end());
    for (Operation *op : part)
      groups[number.lookup(op)] = vertex;
    vertices.push_back(place = vertex);
  }
  for (Vertex vertex : vertices)
    reconnect(vertex);
  return vertices;
}

void OpGraph::dissolve(Operation *op) {
  Vertex gone = number.lookup(op), group = groups[gone];
  llvm::erase(members[group], op);
  for (Vertex producer : before[gone])
    llvm::erase(after[producer], gone);
  for (Vertex consumer : after[gone])
    llvm::erase(before[consumer], gone);
  for (Vertex producer : before[gone])
    for (Vertex consumer : after[gone]) {
      before[consumer].push_back(producer);
      after[producer].push_back(consumer);
      if (groups[producer] != groups[consumer])
        boost::add_edge(groups[producer], groups[consumer], graph);
    }
  before[gone].clear();
  after[gone].clear();
  reconnect(group);
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
