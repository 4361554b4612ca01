#include "codegen/cuda/rows/WindowTiles.h"

#include "codegen/cuda/text/Kernel.h"
#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Guard;
using ir::ScalarNode;

WindowTiles::WindowTiles(const WindowProblem &problem, const TileConfig &config)
    : strip(config["strip"]), rows(config["rows"]), vector(config["vector"]), lanes(config["lanes"]), count(lanes) {
  for (unsigned dim = 0; dim < problem.resultDims(); ++dim) {
    int64_t extent = problem.graph.extents()[dim], part = dim == problem.strip   ? strip
                                                          : dim == problem.down  ? rows
                                                          : dim == problem.dense ? vector * lanes
                                                                                 : 1;
    counts.push_back(ceilDiv(extent, part));
    count *= counts.back();
  }
}

/// An index's constant modulo `by`, where everything else in it but positions is a multiple of it.
static std::optional<int64_t> remainder(const WindowProblem &problem, AffineExpr index, int64_t strip, int64_t by) {
  SmallVector<ir::IndexTerm> terms;
  ir::collectTerms(index, 1, terms);
  int64_t constant = 0;
  for (const ir::IndexTerm &term : terms) {
    auto dim = dyn_cast_or_null<AffineDimExpr>(term.term);
    if (!term.term)
      constant += term.coefficient;
    else if (dim && dim.getPosition() == problem.tap)
      continue;
    else if (term.coefficient * (dim && dim.getPosition() == problem.strip ? strip : 1) % by != 0)
      return std::nullopt;
  }
  return (constant % by + by) % by;
}

int64_t windowAccess(const WindowProblem &problem, const WindowOperand &operand, int64_t strip, int64_t most,
                     int64_t &lead) {
  const ScalarNode &node = problem.graph[operand.load];
  auto fits = [&](int64_t by) {
    std::optional<int64_t> first = remainder(problem, node.map.getResult(0), strip, by);
    if (!first || operand.unit != 1 || elementCount(problem.graph.graph.inputs[node.input].shape) % by != 0)
      return false;
    lead = *first;
    return llvm::all_of(node.guards, [&](const Guard &guard) {
      const int64_t step = *coefficientOf(guard.index, problem.strip);
      return step == 0 || (step == problem.stride && guard.low % by == 0 && guard.high % by == 0 &&
                           remainder(problem, guard.index, strip, by) == lead);
    });
  };
  if (!problem.dense && operand.along == WindowOperand::Along::Window)
    for (int64_t by = most; by > 1; by /= 2)
      if (fits(by))
        return by;
  lead = 0;
  return 1;
}

} // namespace kfuse::codegen::cuda
