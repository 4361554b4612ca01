#include "passes/products/Judge.h"

#include "passes/Fixed.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {

bool Judge::pays(ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> &fixed) {
  if (!forms.known)
    return isFaster(products, fixed);
  const std::string key = WeightForms::keyOf(name, products, fixed);
  if (std::optional<bool> decided = forms.known->find(key))
    return *decided;
  const bool pays = isFaster(products, fixed);
  if (forms.added)
    forms.added->decide(key, pays);
  return pays;
}

bool Judge::isFaster(ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> &fixed) {
  Neighbourhood before = neighbourhoodOf(products, fixed);
  if (!before.module)
    return false;
  auto [found, isNew] = known.try_emplace(before.key());
  if (isNew) {
    Neighbourhood after = neighbourhoodOf(products, fixed);
    rewrite(after.products, fixedValues(after.main()));
    eraseDead(after.main().getBody().front());
    double afterUs = estimateUs(*after.module, model), beforeUs = estimateUs(*before.module, model);
    found->second = afterUs < beforeUs * (1 - worthPart);
  }
  return found->second;
}

} // namespace kfuse::passes
