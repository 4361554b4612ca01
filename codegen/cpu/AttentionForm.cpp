#include "codegen/cpu/AttentionForm.h"

#include "codegen/OtherDims.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::codegen::cpu {

using ir::Scalar;
using ir::ScalarNode;
using Kind = ScalarNode::Kind;

/// The graph over dimensions of which `dims` says what its own ones are.
static LinearGraph overDims(const LinearGraph &graph, ArrayRef<int64_t> extents, ArrayRef<unsigned> dims) {
  MLIRContext *context = graph.graph.outputs[0].map.getContext();
  SmallVector<AffineExpr> exprs =
      llvm::map_to_vector(dims, [&](unsigned dim) { return getAffineDimExpr(dim, context); });
  LinearGraph moved{overOtherDims(graph.graph, extents, exprs), graph.storeGuards, graph.dimsUsed};
  for (unsigned &used : moved.dimsUsed) {
    unsigned now = 0;
    for (auto [dim, to] : llvm::enumerate(dims))
      now |= (used >> dim & 1) << to;
    used = now;
  }
  return moved;
}

/// Puts the nodes of `more` behind those of `graph`, and gives it the outputs of `more`. Returns how far they moved.
static int append(LinearGraph &graph, LinearGraph more) {
  const int first = static_cast<int>(graph.graph.nodes.size());
  auto move = [&](Scalar &s) { s.id += first; };
  for (ScalarNode &node : more.graph.nodes) {
    llvm::for_each(node.operands, move);
    llvm::for_each(node.symbols, move);
  }
  for (ir::ScalarOutput &output : more.graph.outputs) {
    move(output.value);
    llvm::for_each(output.symbols, move);
  }
  llvm::append_range(graph.graph.nodes, more.graph.nodes);
  llvm::append_range(graph.dimsUsed, more.dimsUsed);
  graph.graph.outputs = std::move(more.graph.outputs);
  graph.storeGuards = std::move(more.storeGuards);
  graph.graph.runExtent = more.graph.runExtent;
  if (graph.graph.runExtent)
    move(graph.graph.runExtent->count);
  return first;
}

AttentionForm::AttentionForm(const cuda::FlashProblem &problem)
    : dimRow(problem.dimRow()), dimKey(dimRow + 1), dimD(dimRow + 2), dimValue(dimRow + 3), rows(problem.rows),
      keys(problem.keys), keySize(problem.keySize), valueSize(problem.valueSize), query(problem.query),
      key(problem.key), scoreProduct(problem.scoreProduct), score(problem.scores.graph.outputs[0].value),
      // Where bounds are read at run time, every block of keys that the loops reach is masked.
      seenScore(problem.bounds.areRead() ? score : problem.bounds.seen), bounds(problem.bounds),
      emptyIsZero(problem.emptyIsZero) {
  SmallVector<int64_t> extents(problem.scores.extents());
  extents.push_back(valueSize);
  SmallVector<unsigned> ofScores = llvm::to_vector(llvm::seq<unsigned>(0, problem.rank())), ofProduct = ofScores;
  ofProduct[dimRow + 1] = dimValue, ofProduct[dimRow + 2] = dimKey;

  graph = overDims(problem.scores, extents, ofScores);
  Scalar sink;
  if (problem.sink) {
    append(graph, overDims(*problem.sink, extents, ofScores));
    sink = graph.graph.outputs[0].value;
  }
  const int first = append(graph, overDims(problem.product, extents, ofProduct));
  value = {problem.value.id + first}, valueProduct = {problem.valueProduct.id + first};
  const unsigned ofRow = (1u << dimKey) - 1, ofScore = ofRow | 1u << dimKey;
  auto add = [&](Kind kind, const char *function, ArrayRef<Scalar> operands, unsigned dims, double constant = 0) {
    ScalarNode node;
    node.kind = kind;
    node.function = function;
    node.operands.assign(operands.begin(), operands.end());
    node.constant = constant;
    graph.graph.nodes.push_back(node);
    graph.dimsUsed.push_back(dims);
    return Scalar{static_cast<int>(graph.graph.nodes.size()) - 1};
  };
  if (problem.scale) { // Once for each query, not for each score.
    const Scalar scale = add(Kind::Constant, "", {}, 0, *problem.scale);
    query = add(Kind::Apply, "mul", {query, scale}, ofRow | 1u << dimD);
    scoreProduct = problem.bounds.seen;
  }
  largest = add(Kind::Reduce, "max", score, ofRow);
  power = add(Kind::Apply, "exp", add(Kind::Apply, "sub", {score, largest}, ofScore), ofScore);
  if (sink)
    sinkPower = add(Kind::Apply, "exp", add(Kind::Apply, "sub", {sink, largest}, ofRow), ofRow);
}

} // namespace kfuse::codegen::cpu
