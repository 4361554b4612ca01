#include "codegen/cuda/rows/WindowProblem.h"

#include "codegen/cuda/rows/RowPasses.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Guard;
using ir::IndexTerm;
using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t mostTaps = 32;    ///< A row's taps lie in registers.
constexpr int64_t mostRowTaps = 64; ///< Beyond, a reduction is long enough to be split over threads.

Error refused(const Twine &reason) { return {ErrorCode::BadModel, reason.str()}; }

/// Every index expression of a node.
SmallVector<AffineExpr> indicesOf(const ScalarNode &node) {
  SmallVector<AffineExpr> indices;
  if (node.kind == ScalarNode::Kind::Load)
    indices.push_back(node.map.getResult(0));
  if (node.kind == ScalarNode::Kind::Index)
    indices.push_back(node.index);
  for (const Guard &guard : node.guards)
    indices.push_back(guard.index);
  return indices;
}

/// How many taps follow each other without a step to another row: the least n of `reduced mod n` and `reduced floordiv
/// n`.
int64_t tapsOfRow(const LinearGraph &graph, unsigned reduced) {
  int64_t taps = graph.extents()[reduced];
  for (const ScalarNode &node : graph.graph.nodes)
    for (AffineExpr index : indicesOf(node))
      index.walk([&](AffineExpr part) {
        auto binary = dyn_cast<AffineBinaryOpExpr>(part);
        if (!binary || (part.getKind() != AffineExprKind::Mod && part.getKind() != AffineExprKind::FloorDiv))
          return;
        auto dim = dyn_cast<AffineDimExpr>(binary.getLHS());
        auto by = dyn_cast<AffineConstantExpr>(binary.getRHS());
        if (dim && by && dim.getPosition() == reduced)
          taps = std::min(taps, by.getValue());
      });
  return taps;
}

/// Makes two dimensions of the last one.
void splitReduction(LinearGraph &graph, int64_t taps) {
  const unsigned reduced = graph.graph.domain.reductionDim;
  MLIRContext *context = graph.graph.outputs.front().map.getContext();
  auto &extents = graph.graph.domain.extents;
  extents[reduced] /= taps;
  extents.push_back(taps);
  AffineExpr whole = getAffineDimExpr(reduced, context) * taps + getAffineDimExpr(reduced + 1, context);
  auto rewritten = [&](AffineExpr expr, size_t symbols) {
    SmallVector<int64_t> symbolExtents(symbols, unknownExtent);
    return ir::simplifyIndex(expr.replace(getAffineDimExpr(reduced, context), whole), extents, symbolExtents);
  };
  for (ScalarNode &node : graph.graph.nodes) {
    if (node.kind == ScalarNode::Kind::Load)
      node.map = AffineMap::get(extents.size(), node.map.getNumSymbols(),
                                rewritten(node.map.getResult(0), node.symbols.size()));
    if (node.kind == ScalarNode::Kind::Index)
      node.index = rewritten(node.index, node.symbols.size());
    for (Guard &guard : node.guards)
      guard.index = rewritten(guard.index, node.symbols.size());
  }
  for (ir::ScalarOutput &output : graph.graph.outputs)
    output.map = AffineMap::get(extents.size(), output.map.getNumSymbols(), output.map.getResult(0));
}

/// An index's coefficients of two dimensions.
struct Slope {
  int64_t outer, inner;
  /// Whether both move it by a common step so many times.
  bool isMultipleOf(int64_t ofOuter, int64_t ofInner) const { return outer * ofInner == inner * ofOuter; }
};

std::optional<Slope> slopeOf(AffineExpr index, unsigned outer, unsigned inner) {
  std::optional<int64_t> ofOuter = coefficientOf(index, outer), ofInner = coefficientOf(index, inner);
  if (!ofOuter || !ofInner)
    return std::nullopt;
  return Slope{*ofOuter, *ofInner};
}

/// Whether address and guards of a load move by `ofOuter` and `ofInner` of some step each.
bool slides(const ScalarNode &load, unsigned outer, unsigned inner, int64_t ofOuter, int64_t ofInner) {
  return llvm::all_of(indicesOf(load), [&](AffineExpr index) {
    std::optional<Slope> slope = slopeOf(index, outer, inner);
    return slope && slope->isMultipleOf(ofOuter, ofInner);
  });
}

bool isFunctionOf(const ScalarNode &load, unsigned dim) {
  return llvm::any_of(indicesOf(load), [&](AffineExpr index) { return index.isFunctionOfDim(dim); });
}

/// The dimension along which windows of a load share most, and the load.
Scalar findStrip(WindowProblem &problem, ArrayRef<Scalar> loads) {
  constexpr int64_t results = 8;
  Scalar main;
  int64_t fewest = results * problem.taps();
  for (Scalar load : loads)
    for (unsigned dim = 0; dim < problem.resultDims(); ++dim) {
      const ScalarNode &node = problem.graph[load];
      std::optional<Slope> slope = slopeOf(node.map.getResult(0), dim, problem.tap);
      if (problem.graph.extents()[dim] == 1 || !slope || slope->outer <= 0 || slope->inner <= 0)
        continue;
      const int64_t step = std::gcd(slope->outer, slope->inner), stride = slope->outer / step,
                    dilation = slope->inner / step;
      const int64_t positions = stride * (results - 1) + dilation * (problem.taps() - 1) + 1;
      if (positions >= fewest || !slides(node, dim, problem.tap, stride, dilation))
        continue;
      fewest = positions;
      main = load;
      problem.strip = dim;
      problem.stride = stride;
      problem.dilation = dilation;
    }
  return main;
}

/// The dimension along which windows share rows of taps.
void findDown(WindowProblem &problem, const ScalarNode &main) {
  if (problem.rowTaps() == 1)
    return;
  for (unsigned dim = 0; dim < problem.resultDims(); ++dim) {
    std::optional<Slope> slope = slopeOf(main.map.getResult(0), dim, problem.rowTap);
    if (dim == problem.strip || !slope || slope->inner <= 0 || slope->outer <= 0 || slope->outer % slope->inner != 0)
      continue;
    const int64_t stride = slope->outer / slope->inner;
    if (stride >= problem.rowTaps() || (problem.down && stride >= problem.strideDown) ||
        !slides(main, dim, problem.rowTap, stride, 1))
      continue;
    problem.down = dim;
    problem.strideDown = stride;
  }
}

/// The dimension of neighbours in memory, beside that of the strip.
void findDense(WindowProblem &problem, const ScalarNode &main) {
  if (coefficientOf(main.map.getResult(0), problem.strip) == problem.stride)
    return; // The positions themselves are neighbours.
  for (unsigned dim = 0; dim < problem.resultDims(); ++dim) {
    const bool isGuarded =
        llvm::any_of(main.guards, [&](const Guard &guard) { return guard.index.isFunctionOfDim(dim); });
    if (dim != problem.strip && dim != problem.down && problem.graph.extents()[dim] > 1 && !isGuarded &&
        coefficientOf(main.map.getResult(0), dim) == 1)
      problem.dense = dim;
  }
}

WindowOperand operandOf(const WindowProblem &problem, Scalar load) {
  using Along = WindowOperand::Along;
  const ScalarNode &node = problem.graph[load];
  WindowOperand operand{load};
  const bool ofStrip = isFunctionOf(node, problem.strip), ofTap = isFunctionOf(node, problem.tap);
  operand.along = ofStrip && ofTap ? Along::Both : ofTap ? Along::Tap : Along::Strip;
  if (std::optional<int64_t> ofResult = coefficientOf(node.map.getResult(0), problem.strip);
      operand.along == Along::Both && ofResult && *ofResult != 0 &&
      slides(node, problem.strip, problem.tap, problem.stride, problem.dilation)) {
    operand.along = Along::Window;
    operand.unit = *ofResult / problem.stride;
  }
  operand.slidesDown = problem.down && slides(node, *problem.down, problem.rowTap, problem.strideDown, 1);
  return operand;
}

} // namespace

std::optional<int64_t> coefficientOf(AffineExpr index, unsigned dim) {
  SmallVector<IndexTerm> terms;
  ir::collectTerms(index, 1, terms);
  int64_t coefficient = 0;
  for (const IndexTerm &term : terms) {
    auto alone = dyn_cast_or_null<AffineDimExpr>(term.term);
    if (alone && alone.getPosition() == dim)
      coefficient += term.coefficient;
    else if (term.term && term.term.isFunctionOfDim(dim))
      return std::nullopt;
  }
  return coefficient;
}

AffineExpr atPosition(const WindowProblem &problem, AffineExpr index) {
  MLIRContext *context = index.getContext();
  const int64_t unit = *coefficientOf(index, problem.strip) / problem.stride;
  return index.replace(getAffineDimExpr(problem.tap, context), getAffineConstantExpr(0, context)) +
         getAffineDimExpr(problem.graph.extents().size(), context) * unit;
}

std::vector<Scalar> WindowProblem::roots() const {
  std::vector<Scalar> roots;
  for (Scalar reduction : reductions)
    roots.push_back(graph[reduction].operands[0]);
  return roots;
}

Result<WindowProblem> WindowProblem::of(const Region &region) {
  WindowProblem problem{linearised(region.graph, 1), 0, 0, 0, {}, {}, 1, 1, 1, {}, {}, {}};
  LinearGraph &graph = problem.graph;
  const RowPasses passes(graph);
  if (passes.reductions.size() != 1 || !passes.elementOutputs.empty())
    return refused("passes over its rows more than once");
  problem.reductions = passes.reductions[0];
  problem.rowTap = graph.graph.domain.reductionDim;
  problem.tap = problem.rowTap + 1;
  const int64_t taps = tapsOfRow(graph, problem.rowTap), all = graph.extents()[problem.rowTap];
  if (all % taps != 0 || taps < 2 || taps > mostTaps || all / taps > mostRowTaps)
    return refused("reduces no windows of up to " + Twine(mostRowTaps) + " x " + Twine(mostTaps));
  splitReduction(graph, taps);
  for (const ir::ScalarOutput &output : graph.graph.outputs) {
    if (output.inPlace >= 0 || !output.symbols.empty())
      return refused("writes into a state");
    problem.outputs.push_back(output.value);
  }

  std::vector<bool> needed(graph.graph.nodes.size());
  for (Scalar root : problem.roots())
    needed[root.id] = true;
  std::vector<Scalar> loads;
  for (int id = static_cast<int>(needed.size()) - 1; id >= 0; --id) { // Users before what they use.
    const ScalarNode &node = graph[{id}];
    if (!needed[id])
      continue;
    if (!node.symbols.empty())
      return refused("reduces what is read at run-time addresses");
    if (node.kind == ScalarNode::Kind::Load)
      loads.push_back({id});
    for (Scalar operand : node.operands)
      needed[operand.id] = true;
  }
  std::reverse(loads.begin(), loads.end());
  const Scalar main = findStrip(problem, loads);
  if (!main)
    return refused("reduces no windows that overlap");
  findDown(problem, graph[main]);
  findDense(problem, graph[main]);
  for (Scalar load : loads)
    problem.operands.push_back(operandOf(problem, load));
  return problem;
}

} // namespace kfuse::codegen::cuda
