#include "passes/products/NormWeight.h"

#include "passes/simplify/Matchers.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {

Operation *normBehind(Value lhs) {
  while (auto reshape = lhs.getDefiningOp<ReshapeOp>()) {
    if (dimsOf(reshape.getOperand()).empty() || dimsOf(reshape.getOperand()).back() != dimsOf(lhs).back())
      return nullptr;
    lhs = reshape.getOperand();
  }
  return isa_and_nonnull<RmsNormOp, LayerNormOp>(lhs.getDefiningOp()) ? lhs.getDefiningOp() : nullptr;
}

bool isReadByAlone(Value value, ArrayRef<MatmulOp> products) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isa<ReshapeOp>(user))
      return isReadByAlone(user->getResult(0), products);
    auto product = dyn_cast<MatmulOp>(user);
    return product && llvm::is_contained(products, product) && product.getRhs() != value;
  });
}

void foldNormWeight(ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> &fixed) {
  Operation *norm = normBehind(products.front()->getOperand(0));
  if (!norm)
    return;
  auto rms = dyn_cast<RmsNormOp>(norm);
  auto layer = dyn_cast<LayerNormOp>(norm);
  Value weight = rms ? rms.getWeight() : layer.getWeight();
  bool allowed = weight && fixed.contains(weight) &&
                 typeOf(weight).getElementType() == typeOf(products[0]->getOperand(1)).getElementType() &&
                 !(layer && layer.getBias()) && isReadByAlone(norm->getResult(0), products) &&
                 llvm::none_of(products, [](MatmulOp product) { return product.getTransposeA(); });
  if (!allowed)
    return;
  for (MatmulOp product : products) {
    OpBuilder builder(product);
    int64_t size = dimsOf(weight).front();
    Value rows = product.getTransposeB() ? weight : reshapeTo(builder, weight, {size, 1});
    Value scaled = builder.create<MulOp>(product.getLoc(), product.getRhs(), rows);
    product->setOperand(1, scaled);
  }
  if (rms)
    rms.getWeightMutable().clear();
  else
    layer.getWeightMutable().clear();
}

} // namespace kfuse::passes
