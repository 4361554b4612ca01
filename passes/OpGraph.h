// The one bridge from MLIR to Boost.Graph: order, reachability and contraction for fusion, and
// interference for memory planning.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <boost/graph/adjacency_list.hpp>

#include <vector>

namespace kfuse::passes {

/// Groups of ops and what must run before what. A throw-away view: it holds no IR of its own.
///
/// Groups start as single ops, merge and split. A group's vertex is that of one of its ops. The order of groups stays
/// topological through merges by local repair: only groups that depend on the merged ones and stand between them move
/// (after Pearce and Kelly, A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs, 2006). It is a list whose
/// entries carry rising labels with gaps, so that a move costs the same wherever it ends (Dietz and Sleator, Two
/// Algorithms for Maintaining Order in a List, 1987; here all labels are spread anew where a gap is used up).
class OpGraph {
public:
  using Vertex = unsigned;

  /// One vertex per op.
  explicit OpGraph(llvm::ArrayRef<mlir::Operation *> ops);

  /// `to` runs after `from`.
  void addEdge(mlir::Operation *from, mlir::Operation *to);
  /// Finds the topological order nearest to that of the ops; call it once all edges are there. False
  /// when there is a cycle.
  bool sort();

  /// The group that holds `op` now.
  Vertex groupOf(mlir::Operation *op) const { return groups[number.lookup(op)]; }
  /// The ops of a group, in their first order.
  llvm::ArrayRef<mlir::Operation *> opsOf(Vertex group) const { return members[group]; }
  /// Neighbours, in topological order.
  llvm::SmallVector<Vertex> producersOf(Vertex group) const;
  llvm::SmallVector<Vertex> consumersOf(Vertex group) const;
  /// Those whose vertices come first, in topological order: of thousands a few, without a look at the others.
  llvm::SmallVector<Vertex> firstConsumersOf(Vertex group, size_t count) const;
  size_t consumerCount(Vertex group) const { return boost::out_degree(group, graph); }
  /// Whether `a` comes first in the topological order.
  bool isBefore(Vertex a, Vertex b) const { return label[a] < label[b]; }
  /// All groups, in topological order.
  llvm::SmallVector<Vertex> order() const;

  /// The groups and every other on a path between two of them: what must merge with them, or a cycle would
  /// arise. In topological order. Where that takes thousands of groups to find out: some thousands of groups.
  llvm::SmallVector<Vertex> closure(llvm::ArrayRef<Vertex> among) const;
  /// Whether `to` must run after `from`.
  bool isReachable(Vertex from, Vertex to) const;
  /// Place of `op` in the first order.
  unsigned numberOf(mlir::Operation *op) const { return number.lookup(op); }
  /// Makes the groups of a closure one, and returns it. Two groups without a path between them merge too.
  Vertex merge(llvm::ArrayRef<Vertex> closed);
  /// Takes a group apart: `parts`, in an order they can run in, become groups of their own.
  llvm::SmallVector<Vertex> split(Vertex group, llvm::ArrayRef<llvm::SmallVector<mlir::Operation *>> parts);
  /// `op` is no longer run by a group: what waits for it waits for what it waited for.
  void dissolve(mlir::Operation *op);

private:
  using Graph = boost::adjacency_list<boost::setS, boost::vecS, boost::bidirectionalS>;

  class Walk;
  /// A closure that takes more edges to find is taken for one larger than any that merges. With 8192, 512 Llama layers
  /// that read the same tables took twice the time to the same plan.
  static constexpr size_t mostEdges = 1024;

  llvm::SmallVector<Vertex> sorted(llvm::SmallVector<Vertex> vertices) const;
  /// Gives a group the edges of its ops.
  void reconnect(Vertex group);

  // The order.
  void take(Vertex vertex);                      ///< Out of the list.
  void placeBehind(Vertex place, Vertex vertex); ///< `vertex` is not in the list; `place` is, or is the head.
  void putInPlaceOf(Vertex old, Vertex vertex);  ///< `vertex` is not in the list.
  void spreadLabels();

  Graph graph;
  std::vector<llvm::SmallVector<Vertex, 4>> before, after;      ///< Edges between ops, by their numbers.
  std::vector<llvm::SmallVector<mlir::Operation *, 2>> members; ///< Empty once merged into another.
  std::vector<Vertex> next, previous;                           ///< The order of those with members; a ring.
  std::vector<uint64_t> label;                                  ///< Rises along the order.
  Vertex head;                                                  ///< Stands before the first in the ring.
  llvm::DenseMap<mlir::Operation *, unsigned> number;           ///< Each op's place in the first order.
  std::vector<Vertex> groups;                                   ///< The group of each op, by its number.
};

/// Lifetimes as closed intervals of steps.
struct Lifetime {
  int first = 0;
  int last = 0;
};

/// An edge joins two values that live at the same time.
using InterferenceGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS>;
InterferenceGraph interferenceOf(llvm::ArrayRef<Lifetime> lifetimes);

} // namespace kfuse::passes
