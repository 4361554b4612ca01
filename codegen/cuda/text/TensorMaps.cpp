#include "codegen/cuda/text/TensorMaps.h"

#include <numeric>

using namespace mlir;

namespace kfuse::codegen::cuda {

bool splitOff(AffineExpr expr, unsigned dim, int64_t &coefficient, int64_t &constant,
              SmallVectorImpl<ir::IndexTerm> &rest) {
  SmallVector<ir::IndexTerm> terms;
  ir::collectTerms(expr, 1, terms);
  coefficient = constant = 0;
  for (const ir::IndexTerm &term : terms) {
    auto position = dyn_cast_or_null<AffineDimExpr>(term.term);
    if (!term.term)
      constant += term.coefficient;
    else if (position && position.getPosition() == dim)
      coefficient += term.coefficient;
    else if (term.term.isFunctionOfDim(dim))
      return false;
    else
      rest.push_back(term);
  }
  return true;
}

BatchCoordinate batchCoordinate(ArrayRef<ir::IndexTerm> terms, MLIRContext *context) {
  BatchCoordinate batch{getAffineConstantExpr(0, context)};
  for (const ir::IndexTerm &term : terms)
    batch.stride = std::gcd(batch.stride, term.coefficient);
  if (batch.stride == 0)
    return batch;
  for (const ir::IndexTerm &term : terms)
    batch.index = batch.index + term.term * (term.coefficient / batch.stride);
  return batch;
}

void passTensorMaps(KernelPlan &plan, std::vector<TensorMapRecipe> maps) {
  plan.tensorMaps = std::move(maps);
  std::vector<KernelArg> &args = plan.launches.front().args;
  for (std::uint64_t map = plan.tensorMaps.size(); map-- > 0;)
    args.insert(args.begin(), {KernelArg::Kind::TensorMap, map});
}

} // namespace kfuse::codegen::cuda
