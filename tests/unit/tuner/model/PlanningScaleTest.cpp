// What planning costs when a graph has thousands of ops: near linear time, whatever its shape.
#include "ir/GraphModule.h"
#include "ir/Target.h"
#include "kfuse/graph.h"
#include "tuner/model/PlannedModel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <malloc.h>
#include <string>
#include <vector>

using namespace kfuse;

namespace {

const Shape block{4, 256};

Tensor mixed(GraphBuilder &g, Tensor x, int i) {
  switch (i * 7 % 5) {
  case 0:
    return g.sigmoid(x);
  case 1:
    return g.tanh(x);
  case 2:
    return g.gelu(x);
  case 3:
    return g.silu(x);
  default:
    return g.relu(x);
  }
}

void chain(GraphBuilder &g, int ops) {
  Tensor x = g.input("x", DType::F32, block);
  for (int i = 0; i < ops; ++i)
    x = mixed(g, x, i);
  g.output("y", x);
}

void chainWithShortcuts(GraphBuilder &g, int ops) {
  std::vector<Tensor> values{g.input("x", DType::F32, block)};
  for (int i = 0; i < ops / 2; ++i) {
    values.push_back(mixed(g, values.back(), i));
    values.push_back(g.add(values.back(), values[std::max(0, static_cast<int>(values.size()) - 14)]));
  }
  g.output("y", values.back());
}

void parallelChains(GraphBuilder &g, int ops) {
  constexpr int chains = 50;
  std::vector<Tensor> ends(chains, g.input("x", DType::F32, block));
  for (int i = 0; i < ops; ++i)
    ends[i % chains] = mixed(g, ends[i % chains], i + i / chains);
  for (int i = 0; i < chains; ++i)
    g.output("y" + std::to_string(i), ends[i]);
}

void sum(GraphBuilder &g, int ops) {
  Tensor all = g.input("x", DType::F32, block);
  for (int i = 0; i < ops; ++i)
    all = g.add(all, g.input("x" + std::to_string(i), DType::F32, block));
  g.output("y", all);
}

/// Joined two by two, which becomes one concat of all.
void join(GraphBuilder &g, int ops) {
  Tensor all = g.input("x", DType::F32, {1, 64});
  for (int i = 0; i < ops; ++i)
    all = g.concat({all, g.input("x" + std::to_string(i), DType::F32, {1, 64})}, 0);
  g.output("y", all);
}

void cutAndJoin(GraphBuilder &g, int ops) {
  Tensor x = g.input("x", DType::F32, {ops, 64}), all;
  for (int i = 0; i < ops; ++i) {
    Tensor piece = mixed(g, g.slice(x, {i, 0}, {1, 64}), i);
    all = i == 0 ? piece : g.concat({all, piece}, 0);
  }
  g.output("y", all);
}

void cut(GraphBuilder &g, int ops) {
  Tensor x = g.input("x", DType::F32, {ops, 64});
  for (int i = 0; i < ops; ++i)
    g.output("y" + std::to_string(i), g.slice(x, {i, 0}, {1, 64}));
}

void readByAll(GraphBuilder &g, int ops) {
  Tensor x = g.tanh(g.input("x", DType::F32, block));
  for (int i = 0; i < ops; ++i)
    g.output("y" + std::to_string(i), g.mul(x, g.input("x" + std::to_string(i), DType::F32, block)));
}

double secondsToPlan(void (*build)(GraphBuilder &, int), int ops, const char *target) {
  mallopt(M_PERTURB, 0); // Filling what is allocated and hardly touched would count more than planning.
  GraphBuilder g;
  build(g, ops);
  Result<Graph> graph = g.build();
  REQUIRE_MESSAGE(graph, graph.error().message);
  const std::clock_t start = std::clock(); // Processor time: what else the machine does is no matter.
  auto model = tuner::planModel(graph->internals().module.get(), *ir::findTarget(target));
  REQUIRE_MESSAGE(model, model.error().message);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

} // namespace

TEST_CASE("four times the ops of any shape of graph take about four times as long to plan") {
  struct Case {
    const char *name;
    void (*build)(GraphBuilder &, int);
    int ops;
  };
  const Case cases[] = {{"chain", chain, 2000},
                        {"chain with shortcuts", chainWithShortcuts, 2000},
                        {"parallel chains", parallelChains, 2000},
                        {"sum", sum, 2000},
                        {"join", join, 1000},
                        {"cut and join", cutAndJoin, 300},
                        {"cut", cut, 500},
                        {"read by all", readByAll, 500}};
  for (const Case &each : cases) {
    CAPTURE(std::string(each.name));
    const double few = secondsToPlan(each.build, each.ops, "sm_90a");
    const double many = secondsToPlan(each.build, 4 * each.ops, "sm_90a");
    // Were it quadratic it would be 16; a twentieth of a second is little in any case.
    CHECK(many < 9 * std::max(few, 0.05));
  }
}
