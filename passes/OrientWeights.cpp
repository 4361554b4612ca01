#include "passes/Passes.h"

#include "passes/Fixed.h"
#include "passes/products/Judge.h"
#include "passes/simplify/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

constexpr double worthPart =
    0.025; ///< The least gain, a share of a product and the next: the weights are held twice for it.

/// x W -> x (W^T)^T; W^T, which is fixed, kfuse-split-prepare moves into @prepare.
void storeAlongK(ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> & /*fixed*/) {
  for (MatmulOp product : products) {
    OpBuilder builder(product);
    SmallVector<int64_t> shape(dimsOf(product.getRhs())), order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(shape.end()[-1], shape.end()[-2]);
    std::swap(order.end()[-1], order.end()[-2]);
    auto alongK = builder.create<TransposeOp>(product.getLoc(), typeOf(product.getRhs()).clone(shape), product.getRhs(),
                                              ArrayRef<int64_t>(order));
    alongK->setAttr(storedAttrName, builder.getUnitAttr());
    Value result = builder.create<MatmulOp>(product.getLoc(), product.getLhs(), alongK, product.getTransposeA(),
                                            /*transpose_b=*/true, product.getTf32());
    product.replaceAllUsesWith(result);
  }
}

/// A convolution's weights [C', C, K...] in the order of its windows, [C', K... C], have no single stride along K: they
/// are stored in that order. (Where there is one, kfuse-simplify has made the view a reshape and a transpose.)
void storeInOrder(MatmulOp product, const llvm::DenseSet<Value> &fixed) {
  for (Value operand : product.getOperands())
    if (auto reshape = operand.getDefiningOp<ReshapeOp>())
      if (auto transpose = reshape.getOperand().getDefiningOp<TransposeOp>(); transpose && fixed.contains(transpose))
        transpose->setAttr(storedAttrName, UnitAttr::get(product.getContext()));
}

struct OrientWeightsPass : PassWrapper<OrientWeightsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OrientWeightsPass)
  explicit OrientWeightsPass(const CostModel &model) : model(model) {}
  StringRef getArgument() const override { return "kfuse-orient-weights"; }
  StringRef getDescription() const override { return "Fixed weights are stored along K where that is faster"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock())
      return;
    Judge judge(model, storeAlongK, worthPart);
    const llvm::DenseSet<Value> fixed = fixedValues(function);
    for (MatmulOp product : function.getOps<MatmulOp>())
      storeInOrder(product, fixed);
    for (MatmulOp product : llvm::to_vector(function.getOps<MatmulOp>()))
      if (!product.getTransposeB() && fixed.contains(product.getRhs()) && !fixed.contains(product.getLhs()) &&
          judge.pays(product, fixed))
        storeAlongK(product, fixed);
    eraseDead(function.getBody().front());
  }

  const CostModel &model;
};

} // namespace

std::unique_ptr<Pass> createOrientWeightsPass(const CostModel &model) {
  return std::make_unique<OrientWeightsPass>(model);
}

} // namespace kfuse::passes
