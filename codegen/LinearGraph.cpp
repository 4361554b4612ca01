#include "codegen/LinearGraph.h"

#include "codegen/OtherDims.h"
#include "codegen/PackedLoads.h"

#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::codegen {
namespace {

using ir::Guard;
using ir::IndexTerm;
using ir::Scalar;
using ir::ScalarNode;

AffineExpr sumOf(ArrayRef<IndexTerm> terms, MLIRContext *context) {
  AffineExpr sum = getAffineConstantExpr(0, context);
  for (const IndexTerm &term : terms)
    sum = sum + (term.term ? term.term * term.coefficient : getAffineConstantExpr(term.coefficient, context));
  return sum;
}

/// The n of `e floordiv n` or `e mod n`; 0 for other expressions.
int64_t divisorOf(AffineExpr expr, AffineExprKind kind) {
  auto binary = dyn_cast_or_null<AffineBinaryOpExpr>(expr);
  if (!binary || binary.getKind() != kind)
    return 0;
  auto divisor = dyn_cast<AffineConstantExpr>(binary.getRHS());
  return divisor ? divisor.getValue() : 0;
}

/// Puts (e floordiv n) * n + e mod n together to e, as linearising a delinearised index leaves it.
AffineExpr recombined(AffineExpr expr) {
  SmallVector<IndexTerm> terms;
  ir::collectTerms(expr, 1, terms);
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t j = 0; j < terms.size(); ++j) {
      int64_t by = divisorOf(terms[i].term, AffineExprKind::Mod);
      if (!by || divisorOf(terms[j].term, AffineExprKind::FloorDiv) != by ||
          terms[j].coefficient != terms[i].coefficient * by)
        continue;
      AffineExpr whole = cast<AffineBinaryOpExpr>(terms[i].term).getLHS();
      if (cast<AffineBinaryOpExpr>(terms[j].term).getLHS() != whole)
        continue;
      terms[i].term = whole;
      terms.erase(terms.begin() + j);
      return recombined(sumOf(terms, expr.getContext()));
    }
  return sumOf(terms, expr.getContext());
}

/// Applies `rewrite` to every index expression over the domain.
void rewriteIndices(ir::ScalarGraph &graph, llvm::function_ref<AffineExpr(AffineExpr)> rewrite) {
  auto rewriteMap = [&](AffineMap map) {
    SmallVector<AffineExpr> results = llvm::map_to_vector(map.getResults(), rewrite);
    return AffineMap::get(graph.domain.rank(), map.getNumSymbols(), results, map.getContext());
  };
  for (ScalarNode &node : graph.nodes) {
    if (node.kind == ScalarNode::Kind::Load)
      node.map = rewriteMap(node.map);
    if (node.kind == ScalarNode::Kind::Index)
      node.index = rewrite(node.index);
    for (Guard &guard : node.guards)
      guard.index = rewrite(guard.index);
  }
  for (ir::ScalarOutput &output : graph.outputs)
    output.map = rewriteMap(output.map);
}

bool allIndices(const ir::ScalarGraph &graph, llvm::function_ref<bool(AffineExpr)> holds) {
  for (const ScalarNode &node : graph.nodes) {
    if (node.kind == ScalarNode::Kind::Load && !llvm::all_of(node.map.getResults(), holds))
      return false;
    if (node.kind == ScalarNode::Kind::Index && !holds(node.index))
      return false;
    if (!llvm::all_of(node.guards, [&](const Guard &guard) { return holds(guard.index); }))
      return false;
  }
  return llvm::all_of(graph.outputs, [&](const ir::ScalarOutput &output) { return holds(output.map.getResult(0)); });
}

/// Whether `outer` and the dimension after it, of size `innerSize`, only occur as outer * innerSize + inner.
bool walksAsOne(AffineExpr expr, unsigned outer, int64_t innerSize) {
  SmallVector<IndexTerm> terms;
  ir::collectTerms(expr, 1, terms);
  int64_t outerStride = 0, innerStride = 0;
  for (const IndexTerm &term : terms) {
    if (auto dim = dyn_cast_or_null<AffineDimExpr>(term.term)) {
      outerStride += dim.getPosition() == outer ? term.coefficient : 0;
      innerStride += dim.getPosition() == outer + 1 ? term.coefficient : 0;
    } else if (auto binary = dyn_cast_or_null<AffineBinaryOpExpr>(term.term)) {
      if (!walksAsOne(binary.getLHS(), outer, innerSize))
        return false;
    }
  }
  return outerStride == innerStride * innerSize;
}

/// Removes dimension `dim` of the domain; where it stood, `dim` is 0 and later ones move down.
void dropDim(ir::ScalarGraph &graph, unsigned dim, MLIRContext *context) {
  SmallVector<AffineExpr> replacement;
  for (unsigned i = 0; i < graph.domain.rank(); ++i)
    replacement.push_back(i == dim ? getAffineConstantExpr(0, context) : getAffineDimExpr(i - (i > dim), context));
  graph.domain.extents.erase(graph.domain.extents.begin() + dim);
  graph.domain.reductionDim -= static_cast<int>(dim) < graph.domain.reductionDim;
  graph.domain.contractionDim -= static_cast<int>(dim) < graph.domain.contractionDim;
  if (graph.runExtent && graph.runExtent->dim == dim)
    graph.runExtent.reset();
  if (graph.runExtent)
    graph.runExtent->dim -= dim < graph.runExtent->dim;
  rewriteIndices(graph, [&](AffineExpr expr) { return expr.replaceDims(replacement); });
}

/// The node `count` times `factor`.
Scalar times(ir::ScalarGraph &graph, Scalar count, int64_t factor) {
  ScalarNode number, product;
  number.type = product.type = graph[count].type;
  number.integer = factor;
  graph.nodes.push_back(std::move(number));
  product.kind = ScalarNode::Kind::Apply;
  product.function = "mul";
  product.operands = {count, Scalar{static_cast<int>(graph.nodes.size()) - 1}};
  graph.nodes.push_back(std::move(product));
  return Scalar{static_cast<int>(graph.nodes.size()) - 1};
}

bool mergeWithNext(ir::ScalarGraph &graph, unsigned outer, MLIRContext *context) {
  SmallVector<int64_t, 6> &extents = graph.domain.extents;
  int64_t innerSize = extents[outer + 1];
  if (innerSize == 1) {
    dropDim(graph, outer + 1, context);
    return true;
  }
  std::optional<ir::RunExtent> &end = graph.runExtent;
  if (end && end->dim == outer + 1 && extents[outer] > 1) // It ends each of several rows.
    return false;
  if (!allIndices(graph, [&](AffineExpr expr) { return walksAsOne(expr, outer, innerSize); }))
    return false;
  if (end && end->dim == outer)
    end = ir::RunExtent{outer + 1, times(graph, end->count, innerSize)};
  extents[outer + 1] *= extents[outer];
  dropDim(graph, outer, context);
  return true;
}

void collapse(ir::ScalarGraph &graph, unsigned fixedDims, MLIRContext *context) {
  SmallVector<int64_t, 6> &extents = graph.domain.extents;
  for (unsigned dim = extents.size() - fixedDims; dim-- > 0;)
    if (extents[dim] == 1 && extents.size() > 1)
      dropDim(graph, dim, context);
  for (unsigned outer = extents.size() - fixedDims; outer-- > 1;)
    mergeWithNext(graph, outer - 1, context);
}

/// A state update writes all of its slices or nothing: each result of the map that a symbol moves
/// stays inside the shape over the whole domain.
std::vector<Guard> storeGuardsOf(const ir::ScalarOutput &output, ArrayRef<int64_t> extents) {
  std::vector<Guard> guards;
  MLIRContext *context = output.map.getContext();
  SmallVector<AffineExpr> zeros(extents.size(), getAffineConstantExpr(0, context));
  SmallVector<AffineExpr> noSymbols(output.symbols.size(), getAffineConstantExpr(0, context));
  for (auto [expr, size] : llvm::zip_equal(output.map.getResults(), output.shape)) {
    AffineExpr moved = expr.replaceDims(zeros);
    if (!isa<AffineConstantExpr>(moved))
      guards.push_back({moved, 0, size - ir::maxOfIndex(expr.replaceSymbols(noSymbols), extents)});
  }
  return guards;
}

AffineMap offsetMap(AffineMap map, ArrayRef<int64_t> shape) {
  AffineExpr offset = recombined(ir::linearise(map.getResults(), shape, map.getContext()));
  return AffineMap::get(map.getNumDims(), map.getNumSymbols(), offset);
}

std::vector<unsigned> findDimsUsed(const ir::ScalarGraph &graph) {
  std::vector<unsigned> used(graph.nodes.size());
  auto usedBy = [&](AffineExpr expr) {
    unsigned dims = 0;
    for (unsigned dim = 0; expr && dim < graph.domain.rank(); ++dim)
      dims |= unsigned{expr.isFunctionOfDim(dim)} << dim;
    return dims;
  };
  for (auto [id, node] : llvm::enumerate(graph.nodes)) {
    unsigned &dims = used[id];
    for (ArrayRef<Scalar> scalars : {ArrayRef<Scalar>(node.operands), ArrayRef<Scalar>(node.symbols)})
      for (Scalar s : scalars)
        dims |= used[s.id];
    if (node.kind == ScalarNode::Kind::Load)
      dims |= usedBy(node.map.getResult(0));
    dims |= usedBy(node.index);
    for (const Guard &guard : node.guards)
      dims |= usedBy(guard.index);
    if (node.kind == ScalarNode::Kind::Reduce)
      dims &= ~(1U << graph.domain.reductionDim);
    if (node.kind == ScalarNode::Kind::Contract)
      dims &= ~(1U << graph.domain.contractionDim);
  }
  return used;
}

} // namespace

LinearGraph linearised(const ir::ScalarGraph &source, unsigned fixedDims) {
  LinearGraph linear{withPackedLoads(source), {}, {}};
  ir::ScalarGraph &graph = linear.graph;
  MLIRContext *context = source.outputs.front().map.getContext();
  for (ScalarNode &node : graph.nodes)
    if (node.kind == ScalarNode::Kind::Load)
      node.map = offsetMap(node.map, graph.inputs[node.input].shape);
  for (ir::ScalarOutput &output : graph.outputs) {
    linear.storeGuards.push_back(storeGuardsOf(output, graph.domain.extents));
    output.map = offsetMap(output.map, output.shape);
  }
  if (graph.domain.extents.empty()) {
    graph.domain.extents.push_back(1);
    rewriteIndices(graph, [](AffineExpr expr) { return expr; });
  }
  collapse(graph, fixedDims, context);
  size_t mostSymbols = 0;
  for (const ScalarNode &node : graph.nodes)
    mostSymbols = std::max(mostSymbols, node.symbols.size());
  for (const ir::ScalarOutput &output : graph.outputs)
    mostSymbols = std::max(mostSymbols, output.symbols.size());
  SmallVector<int64_t> symbols(mostSymbols, unknownExtent);
  rewriteIndices(graph,
                 [&](AffineExpr expr) { return recombined(ir::simplifyIndex(expr, graph.domain.extents, symbols)); });
  linear.dimsUsed = findDimsUsed(graph);
  return linear;
}

bool mergeWithNext(LinearGraph &graph, unsigned outer) {
  if (!mergeWithNext(graph.graph, outer, graph.graph.outputs.front().map.getContext()))
    return false;
  graph.dimsUsed = findDimsUsed(graph.graph);
  return true;
}

void interchange(LinearGraph &graph, unsigned a, unsigned b) {
  MLIRContext *context = graph.graph.outputs.front().map.getContext();
  SmallVector<AffineExpr> replacement;
  for (unsigned dim = 0; dim < graph.graph.domain.rank(); ++dim)
    replacement.push_back(getAffineDimExpr(dim == a ? b : dim == b ? a : dim, context));
  std::swap(graph.graph.domain.extents[a], graph.graph.domain.extents[b]);
  if (std::optional<ir::RunExtent> &end = graph.graph.runExtent)
    end->dim = end->dim == a ? b : end->dim == b ? a : end->dim;
  rewriteIndices(graph.graph, [&](AffineExpr expr) { return expr.replaceDims(replacement); });
  graph.dimsUsed = findDimsUsed(graph.graph);
}

bool LinearGraph::fits32Bits() const {
  constexpr int64_t limit = int64_t{1} << 30;
  auto isSmall = [&](const Shape &shape) { return elementCount(shape) < limit; };
  int64_t terms = graph.domain.contractionDim < 0 ? 1 : graph.domain.extents[graph.domain.contractionDim];
  return graph.domain.points() / terms < limit &&
         llvm::all_of(
             graph.inputs, [&](const ir::ScalarInput &input) { return isSmall(input.shape); }) &&
         llvm::all_of(graph.outputs, [&](const ir::ScalarOutput &output) { return isSmall(output.shape); });
}

bool isRowMajor(const LinearGraph &graph, AffineExpr offset, unsigned dimM, unsigned inner) {
  MLIRContext *context = offset.getContext();
  AffineExpr expected = graph.extents()[inner] > 1 ? getAffineDimExpr(inner, context) // The index of one alone is 0.
                                                   : getAffineConstantExpr(0, context);
  int64_t stride = graph.extents()[inner];
  for (unsigned dim = dimM + 1; dim-- > 0; stride *= graph.extents()[dim])
    if (graph.extents()[dim] > 1)
      expected = expected + getAffineDimExpr(dim, context) * stride;
  AffineExpr difference = simplifyAffineExpr(offset - expected, graph.extents().size(), 0);
  return difference == getAffineConstantExpr(0, context);
}

ir::ScalarGraph overOtherDims(ir::ScalarGraph graph, ArrayRef<int64_t> extents, ArrayRef<AffineExpr> dims) {
  auto moved = [&](int dim) {
    return dim + 1 == static_cast<int>(graph.domain.rank()) ? static_cast<int>(extents.size()) - 1 : dim;
  };
  graph.domain.reductionDim = moved(graph.domain.reductionDim);
  graph.domain.contractionDim = moved(graph.domain.contractionDim);
  if (graph.runExtent) {
    auto dim = dyn_cast<AffineDimExpr>(dims[graph.runExtent->dim]);
    graph.runExtent = dim ? std::optional(ir::RunExtent{dim.getPosition(), graph.runExtent->count}) : std::nullopt;
  }
  graph.domain.extents.assign(extents.begin(), extents.end());
  rewriteIndices(graph, [&](AffineExpr expr) { return expr.replaceDims(dims); });
  return graph;
}

} // namespace kfuse::codegen
