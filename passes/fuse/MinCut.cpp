#include "passes/fuse/MinCut.h"

#include "llvm/ADT/MapVector.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include <limits>

using namespace mlir;

namespace kfuse::passes {
namespace {

/// The flow network: a node each for source, sink, ops and values.
class Network {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using EdgeProperties =
      boost::property<boost::edge_capacity_t, int64_t,
                      boost::property<boost::edge_residual_capacity_t, int64_t,
                                      boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
  using NodeProperties =
      boost::property<boost::vertex_color_t, boost::default_color_type,
                      boost::property<boost::vertex_distance_t, int64_t,
                                      boost::property<boost::vertex_predecessor_t, Traits::edge_descriptor>>>;
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, NodeProperties, EdgeProperties>;

public:
  using Node = Traits::vertex_descriptor;
  static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max() / 4;

  Node addNode() { return boost::add_vertex(graph); }
  void addEdge(Node from, Node to, int64_t capacity) {
    auto there = boost::add_edge(from, to, graph).first, back = boost::add_edge(to, from, graph).first;
    boost::put(boost::edge_capacity, graph, there, capacity);
    boost::put(boost::edge_capacity, graph, back, 0);
    boost::put(boost::edge_reverse, graph, there, back);
    boost::put(boost::edge_reverse, graph, back, there);
  }
  void cut(Node source, Node sink) { boost::boykov_kolmogorov_max_flow(graph, source, sink); }
  bool isAbove(Node node) const { return boost::get(boost::vertex_color, graph, node) == boost::black_color; }

private:
  Graph graph;
};

} // namespace

Cut minCut(ArrayRef<Operation *> ops, ArrayRef<Operation *> above, ArrayRef<Operation *> below,
           const Transparency &transparency) {
  Network network;
  Network::Node source = network.addNode(), sink = network.addNode();
  DenseMap<Operation *, Network::Node> nodes;
  for (Operation *op : ops)
    nodes[op] = network.addNode();
  for (Operation *op : above)
    network.addEdge(source, nodes.lookup(op), Network::unlimited);
  for (Operation *op : below)
    network.addEdge(nodes.lookup(op), sink, Network::unlimited);

  llvm::MapVector<Value, SmallVector<Operation *>> readers;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      transparency.forEachSource(operand, [&](Value value) {
        if (!llvm::is_contained(readers[value], op))
          readers[value].push_back(op);
      });
  for (auto &[value, reading] : readers) {
    int64_t bytes = ir::bytesOf(value);
    Network::Node stored = network.addNode();
    auto producer = nodes.find(value.getDefiningOp());
    Network::Node from = producer != nodes.end() ? producer->second : network.addNode();
    // Others see the value through transparent users too; then a store is paid in any case.
    bool isStored = producer == nodes.end() || transparency.isReadOutside(value, ops);
    network.addEdge(from, stored, isStored ? bytes : 2 * bytes);
    for (Operation *reader : reading) {
      network.addEdge(stored, nodes.lookup(reader), Network::unlimited);
      network.addEdge(nodes.lookup(reader), from, Network::unlimited); // Nothing flows upwards.
    }
  }
  network.cut(source, sink);
  Cut cut;
  for (Operation *op : ops)
    (network.isAbove(nodes.lookup(op)) ? cut.upper : cut.lower).push_back(op);
  return cut;
}

} // namespace kfuse::passes
