#include "codegen/cuda/matmul/MatrixOperand.h"

#include "codegen/cuda/text/LaneForm.h"
#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

/// `expr` as outer + inner, of which only inner depends on K and only outer on the operand's rows; nothing where one
/// part depends on both, or on the other operand's dimension.
static std::optional<std::pair<AffineExpr, AffineExpr>> splitAtK(const MatmulProblem &problem, unsigned side,
                                                                 AffineExpr expr) {
  const unsigned outerDim = side == 0 ? problem.dimM : problem.dimN, otherDim = side == 0 ? problem.dimN : problem.dimM;
  SmallVector<ir::IndexTerm> terms;
  ir::collectTerms(expr, 1, terms);
  AffineExpr outer = getAffineConstantExpr(0, expr.getContext()), inner = outer;
  for (const ir::IndexTerm &term : terms) {
    AffineExpr part =
        term.term ? term.term * term.coefficient : getAffineConstantExpr(term.coefficient, expr.getContext());
    const bool usesK = part.isFunctionOfDim(problem.dimK);
    if (part.isFunctionOfDim(otherDim) || (usesK && part.isFunctionOfDim(outerDim)))
      return std::nullopt;
    (usesK ? inner : outer) = (usesK ? inner : outer) + part;
  }
  return std::pair(outer, inner);
}

MatrixOperand MatrixOperand::of(const MatmulProblem &problem, unsigned side, unsigned product) {
  MatrixOperand operand = withBounds(problem, side, product);
  if (!operand.isWindowed || !operand.refusal.empty())
    return operand;
  if (!operand.bounds.empty())
    operand.refusal = std::string(side == 0 ? "the left operand" : "the right operand") +
                      " is joined from pieces, or of windows that reach outside; mma.sync takes it";
  operand.isWindowed = false; // Element by element.
  operand.vector = 1;
  return operand;
}

MatrixOperand MatrixOperand::withBounds(const MatmulProblem &problem, unsigned side, unsigned product) {
  MatrixOperand operand;
  const ScalarNode &node = problem.graph[problem.operand(side, product)];
  const char *name = side == 0 ? "the left operand" : product == 0 ? "the right operand" : "the second right operand";
  auto refuse = [&](const std::string &why) {
    operand.refusal = name + std::string(" ") + why;
    return operand;
  };
  if (node.kind != ScalarNode::Kind::Load)
    return refuse("is computed in the region, not an input of it");
  if (!node.symbols.empty())
    return refuse("is gathered or joined from pieces");

  const unsigned outerDim = side == 0 ? problem.dimM : problem.dimN;
  AffineExpr offset = node.map.getResult(0);
  operand.input = node.input;
  operand.isFixed = problem.isFixed[node.input];
  std::optional<std::pair<AffineExpr, AffineExpr>> place = splitAtK(problem, side, offset);
  if (!place)
    return refuse("is not a matrix over its rows and columns: their positions mix in memory");
  std::tie(operand.outer, operand.inner) = *place;
  for (const ir::Guard &guard : node.guards) {
    std::optional<std::pair<AffineExpr, AffineExpr>> parts = splitAtK(problem, side, guard.index);
    if (!parts)
      return refuse("is joined from pieces whose positions mix rows and columns");
    operand.bounds.push_back({parts->first, parts->second, guard.low, guard.high});
  }
  const DType type = storedTypeOf(problem.graph, problem.operand(side, product));
  const int64_t widest = isFloat8(type) ? 16 : 8;
  auto formAlong = [&](AffineExpr expr, unsigned dim, int64_t width) {
    return laneForm(expr, dim, width, [](unsigned) { return false; });
  };
  for (bool alongK : {true, false}) {
    std::optional<LaneForm> form = formAlong(offset, alongK ? problem.dimK : outerDim, widest);
    if (!form || form->stride != 1 || form->alignment(widest) <= operand.vector)
      continue;
    operand.contiguousK = alongK;
    operand.vector = form->alignment(widest);
  }
  SmallVector<int64_t> strides;
  int64_t start = 0;
  const bool isPieced = operand.contiguousK && operand.vector == 1 &&
                        !ir::linearForm(operand.inner, problem.graph.extents().size(), strides, start);
  operand.isWindowed = isPieced || !operand.bounds.empty();
  if (!operand.isWindowed)
    return operand;
  if (isFloat8(type)) {
    operand.isWindowed = false;
    return operand.bounds.empty() ? operand : refuse("holds 8-bit floats that are read window by window");
  }
  operand.contiguousK = true; // Bounds are checked along K.
  // The longest pieces along K that are contiguous, aligned, and inside or outside as a whole.
  auto arePieces = [&](int64_t width) {
    std::optional<LaneForm> form = formAlong(offset, problem.dimK, width);
    return form && form->stride == 1 && form->alignment(width) == width &&
           llvm::all_of(node.guards, [&](const ir::Guard &guard) {
             std::optional<LaneForm> at = formAlong(guard.index, problem.dimK, width);
             return at && (at->stride == 0 || (at->stride == 1 && at->divisor % width == 0 && guard.low % width == 0 &&
                                               guard.high % width == 0));
           });
  };
  operand.vector = widest;
  while (operand.vector > 1 && !arePieces(operand.vector))
    operand.vector /= 2;
  return operand;
}

} // namespace kfuse::codegen::cuda
