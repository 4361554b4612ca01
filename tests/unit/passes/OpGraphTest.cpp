#include "IrText.h"

#include "passes/OpGraph.h"

#include <random>
#include <set>

using namespace kfuse;
using namespace kfuse::test;
using passes::OpGraph;

namespace {

/// A block of `count` ops to number; what they compute does not matter.
std::string chainText(int count) {
  std::string text = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n";
  for (int i = 0; i < count; ++i)
    text += "%" + std::to_string(i) + " = kfuse.exp %a : (tensor<4xf32>) -> tensor<4xf32>\n";
  return text + "return %a : tensor<4xf32> }";
}

struct Edges {
  std::vector<std::pair<int, int>> list;

  /// Whether the groups (group[i] of op i) have a cycle between them, by repeated removal of sources.
  bool areAcyclic(const std::vector<OpGraph::Vertex> &group) const {
    std::set<std::pair<OpGraph::Vertex, OpGraph::Vertex>> left;
    for (auto [from, to] : list)
      if (group[from] != group[to])
        left.insert({group[from], group[to]});
    for (bool removed = true; removed && !left.empty();) {
      std::set<OpGraph::Vertex> targets;
      for (auto [from, to] : left)
        targets.insert(to);
      removed = false;
      for (auto edge = left.begin(); edge != left.end();)
        if (!targets.count(edge->first))
          edge = left.erase(edge), removed = true;
        else
          ++edge;
    }
    return left.empty();
  }
};

} // namespace

TEST_CASE("merging closures never makes a cycle and keeps a topological order") {
  constexpr int ops = 24;
  ParsedModule parsed(chainText(ops));
  std::vector<mlir::Operation *> list;
  for (mlir::Operation &op : parsed.body().without_terminator())
    list.push_back(&op);

  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    OpGraph graph(list);
    Edges edges;
    for (int to = 1; to < ops; ++to)
      for (int times = 0; times < 2; ++times) {
        int from = static_cast<int>(random() % to);
        graph.addEdge(list[from], list[to]);
        edges.list.push_back({from, to});
      }
    REQUIRE(graph.sort());
    for (int merges = 0; merges < 8; ++merges) {
      auto [from, to] = edges.list[random() % edges.list.size()];
      OpGraph::Vertex a = graph.groupOf(list[from]), b = graph.groupOf(list[to]);
      if (a == b)
        continue;
      auto closed = graph.closure({a, b});
      CHECK(closed.front() == a);
      CHECK(closed.back() == b);
      graph.merge(closed);
    }

    // Some groups fall apart again, at any place of the order of their ops.
    for (OpGraph::Vertex vertex : graph.order())
      if (size_t size = graph.opsOf(vertex).size(); size > 1 && random() % 2) {
        auto members = graph.opsOf(vertex);
        size_t place = 1 + random() % (size - 1);
        llvm::SmallVector<mlir::Operation *> upper(members.take_front(place)), lower(members.drop_front(place));
        auto parts = graph.split(vertex, {upper, lower});
        CHECK(graph.opsOf(parts[0]) == llvm::ArrayRef(upper));
        CHECK(graph.opsOf(parts[1]) == llvm::ArrayRef(lower));
        CHECK(graph.isBefore(parts[0], parts[1]));
      }

    std::vector<OpGraph::Vertex> group;
    for (mlir::Operation *op : list)
      group.push_back(graph.groupOf(op));
    CHECK(edges.areAcyclic(group));
    std::map<OpGraph::Vertex, size_t> place;
    size_t members = 0;
    for (OpGraph::Vertex vertex : graph.order()) {
      place[vertex] = place.size();
      members += graph.opsOf(vertex).size();
    }
    CHECK(members == ops);
    for (auto [from, to] : edges.list)
      CHECK(place[group[from]] <= place[group[to]]);
  }
}

TEST_CASE("what waits for a dissolved op waits for what it waited for") {
  ParsedModule parsed(chainText(4));
  std::vector<mlir::Operation *> list;
  for (mlir::Operation &op : parsed.body().without_terminator())
    list.push_back(&op);
  OpGraph graph(list);
  for (int to : {1, 2, 3})
    graph.addEdge(list[to - 1], list[to]);
  REQUIRE(graph.sort());
  OpGraph::Vertex lower = graph.merge({graph.groupOf(list[1]), graph.groupOf(list[2])});
  graph.dissolve(list[1]);
  CHECK(graph.opsOf(lower) == llvm::ArrayRef(list[2]));
  CHECK(graph.producersOf(lower) == llvm::SmallVector<OpGraph::Vertex>{0});
  CHECK(graph.order() == llvm::SmallVector<OpGraph::Vertex>{0, lower, 3});
  CHECK(graph.isReachable(0, 3));
  CHECK_FALSE(graph.isReachable(3, 0));
}

TEST_CASE("a cycle has no order") {
  ParsedModule parsed(chainText(3));
  std::vector<mlir::Operation *> list;
  for (mlir::Operation &op : parsed.body().without_terminator())
    list.push_back(&op);
  OpGraph graph(list);
  graph.addEdge(list[2], list[0]);
  CHECK(graph.sort());
  CHECK(graph.order() == llvm::SmallVector<OpGraph::Vertex>{1, 2, 0});
  graph.addEdge(list[0], list[2]);
  CHECK_FALSE(graph.sort());
}
