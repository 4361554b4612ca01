#include "passes/OpGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <numeric>
#include <set>

using namespace mlir;

namespace kfuse::passes {

OpGraph::OpGraph(ArrayRef<Operation *> ops)
    : graph(ops.size()), before(ops.size()), after(ops.size()), members(ops.size()), next(ops.size() + 1),
      previous(ops.size() + 1), label(ops.size() + 1), head(ops.size()), groups(ops.size()) {
  next[head] = previous[head] = head;
  for (auto [i, op] : llvm::enumerate(ops)) {
    Vertex vertex = i;
    members[vertex] = {op};
    groups[vertex] = vertex;
    number[op] = vertex;
    placeBehind(previous[head], vertex);
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
  next[head] = previous[head] = head;
  size_t placed = 0;
  for (; !ready.empty(); ++placed) {
    Vertex vertex = *ready.begin();
    ready.erase(ready.begin());
    placeBehind(previous[head], vertex);
    for (Vertex consumer : llvm::make_range(boost::adjacent_vertices(vertex, graph)))
      if (--waitsFor[consumer] == 0)
        ready.insert(consumer);
  }
  return placed == members.size();
}

//===- The order -----------------------------------------------------------------------------===//

void OpGraph::take(Vertex vertex) {
  next[previous[vertex]] = next[vertex];
  previous[next[vertex]] = previous[vertex];
}

void OpGraph::placeBehind(Vertex place, Vertex vertex) {
  const Vertex follower = next[place];
  previous[vertex] = place;
  next[vertex] = follower;
  next[place] = previous[follower] = vertex;
  constexpr uint64_t step = uint64_t{1} << 32; // Halved 32 times before a gap is used up.
  const uint64_t low = label[place], high = follower == head ? low + 2 * step : label[follower];
  label[vertex] = low + (high - low) / 2;
  if (label[vertex] == low)
    spreadLabels();
}

void OpGraph::putInPlaceOf(Vertex old, Vertex vertex) {
  previous[vertex] = previous[old];
  next[vertex] = next[old];
  next[previous[old]] = previous[next[old]] = vertex;
  label[vertex] = label[old];
}

void OpGraph::spreadLabels() {
  uint64_t last = label[head] = 0;
  for (Vertex vertex = next[head]; vertex != head; vertex = next[vertex])
    label[vertex] = last += uint64_t{1} << 32;
}

SmallVector<OpGraph::Vertex> OpGraph::sorted(SmallVector<Vertex> vertices) const {
  llvm::sort(vertices, [&](Vertex a, Vertex b) { return isBefore(a, b); });
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

SmallVector<OpGraph::Vertex> OpGraph::firstConsumersOf(Vertex group, size_t count) const {
  auto [begin, end] = boost::adjacent_vertices(group, graph); // A set: by vertex.
  SmallVector<Vertex> first;
  for (; begin != end && first.size() < count; ++begin)
    first.push_back(*begin);
  return sorted(std::move(first));
}

SmallVector<OpGraph::Vertex> OpGraph::order() const {
  SmallVector<Vertex> alive;
  for (Vertex vertex = next[head]; vertex != head; vertex = next[vertex])
    alive.push_back(vertex);
  return alive;
}

/// What is reached from some groups along edges one way, not beyond a bound, a group at a time. Two walks towards each
/// other take turns, the cheaper step first: a table that all layers read has many readers, each of which reads little.
class OpGraph::Walk {
public:
  Walk(const OpGraph &groups, ArrayRef<Vertex> starts, bool forward, Vertex bound)
      : groups(groups), forward(forward), bound(bound), reached(starts.begin(), starts.end()), pending(starts) {}

  bool isDone() const { return pending.empty(); }
  /// Edges that the next step follows.
  size_t edges() const {
    return forward ? boost::out_degree(pending.back(), groups.graph) : boost::in_degree(pending.back(), groups.graph);
  }
  void step() {
    Vertex vertex = pending.pop_back_val();
    if (forward)
      visit(boost::adjacent_vertices(vertex, groups.graph));
    else
      visit(boost::inv_adjacent_vertices(vertex, groups.graph));
  }
  void finish() {
    while (!isDone())
      step();
  }
  /// Lets both go on until one is done, or `most` edges were followed.
  static void takeTurns(Walk &a, Walk &b, size_t most) {
    size_t followedA = 0, followedB = 0;
    while (!a.isDone() && !b.isDone() && std::min(followedA, followedB) < most) {
      bool isTurnOfA = followedA + a.edges() <= followedB + b.edges();
      (isTurnOfA ? followedA : followedB) += 1 + (isTurnOfA ? a : b).edges();
      (isTurnOfA ? a : b).step();
    }
  }
  const llvm::DenseSet<Vertex> &all() const { return reached; }

private:
  template <class Neighbours> void visit(Neighbours neighbours) {
    for (Vertex vertex : llvm::make_range(neighbours)) {
      bool isBeyond = forward ? groups.isBefore(bound, vertex) : groups.isBefore(vertex, bound);
      if (!isBeyond && reached.insert(vertex).second)
        pending.push_back(vertex);
    }
  }

  const OpGraph &groups;
  bool forward;
  Vertex bound;
  llvm::DenseSet<Vertex> reached;
  SmallVector<Vertex> pending;
};

SmallVector<OpGraph::Vertex> OpGraph::closure(ArrayRef<Vertex> among) const {
  SmallVector<Vertex> ends = sorted(SmallVector<Vertex>(among));
  Walk below(*this, ends, true, ends.back()), above(*this, ends, false, ends.front());
  Walk::takeTurns(below, above, mostEdges);
  auto listed = [&](const Walk &walk) { return sorted(SmallVector<Vertex>(walk.all().begin(), walk.all().end())); };
  if (!below.isDone() && !above.isDone())
    return listed(below);
  // What the other would reach of what the one that is done has reached: along the edges just followed.
  const bool isBelow = below.isDone();
  SmallVector<Vertex> reached = listed(isBelow ? below : above);
  if (isBelow)
    std::reverse(reached.begin(), reached.end());
  llvm::DenseSet<Vertex> both(ends.begin(), ends.end());
  SmallVector<Vertex> closed;
  for (Vertex vertex : reached) {
    auto isReached = [&](auto neighbours) {
      return llvm::any_of(llvm::make_range(neighbours), [&](Vertex next) { return both.contains(next); });
    };
    if (both.contains(vertex) || (isBelow ? isReached(boost::adjacent_vertices(vertex, graph))
                                          : isReached(boost::inv_adjacent_vertices(vertex, graph)))) {
      both.insert(vertex);
      closed.push_back(vertex);
    }
  }
  return sorted(std::move(closed));
}

bool OpGraph::isReachable(Vertex from, Vertex to) const {
  if (!isBefore(from, to))
    return false;
  Walk below(*this, from, true, to), above(*this, to, false, from);
  Walk::takeTurns(below, above, std::numeric_limits<size_t>::max());
  return below.all().contains(to) || above.all().contains(from);
}

OpGraph::Vertex OpGraph::merge(ArrayRef<Vertex> closed) {
  // The group stands where its last part stood; what depends on it and stood before that follows.
  Vertex kept = closed.front(), place = closed.back();
  Walk below(*this, closed, true, place);
  below.finish();
  SmallVector<Vertex> later = sorted(SmallVector<Vertex>(below.all().begin(), below.all().end()));
  llvm::erase_if(later, [&](Vertex vertex) { return llvm::is_contained(closed, vertex); });
  for (Vertex vertex : later)
    take(vertex);
  for (Vertex vertex : closed.drop_back())
    take(vertex);
  if (kept != place)
    putInPlaceOf(place, kept);
  Vertex behind = kept;
  for (Vertex vertex : later) {
    placeBehind(behind, vertex);
    behind = vertex;
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

SmallVector<OpGraph::Vertex> OpGraph::split(Vertex group, ArrayRef<SmallVector<Operation *>> parts) {
  boost::clear_vertex(group, graph);
  members[group].clear();
  SmallVector<Vertex> vertices;
  Vertex place = group;
  for (const SmallVector<Operation *> &part : parts) {
    bool keepsVertex = llvm::any_of(part, [&](Operation *op) { return number.lookup(op) == group; });
    Vertex vertex = keepsVertex ? group : number.lookup(part.front());
    if (vertex != place) {
      if (vertex == group) // It stood first, and is not the first to run.
        take(vertex);
      placeBehind(place, vertex);
    }
    members[vertex].assign(part.begin(), part.end());
    for (Operation *op : part)
      groups[number.lookup(op)] = vertex;
    vertices.push_back(place = vertex);
  }
  if (members[group].empty())
    take(group);
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
  if (members[group].empty())
    take(group);
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
