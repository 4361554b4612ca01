#include "passes/Passes.h"

#include "passes/Fixed.h"
#include "passes/products/Judge.h"
#include "passes/simplify/Matchers.h"

#include <algorithm>
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

/// The windows that a value is, layout above them aside; null where it is none.
WindowOp windowsOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto windows = dyn_cast<WindowOp>(op))
      return windows;
    if (!isa<ReshapeOp, TransposeOp, SliceOp>(op))
      return {};
    value = op->getOperand(0);
  }
  return {};
}

/// A slice of one tap of weights [.., K] as one of those that are stored as [K, ..].
void sliceTapsFirst(SliceOp slice, llvm::DenseMap<Value, Value> &tapsFirst) {
  auto transposed = [](ArrayRef<int64_t> from) {
    SmallVector<int64_t> to(from);
    std::rotate(to.begin(), std::prev(to.end()), to.end());
    return to;
  };
  OpBuilder builder(slice);
  Value weights = slice.getOperand(), &stored = tapsFirst[weights];
  if (!stored) {
    builder.setInsertionPointAfterValue(weights);
    SmallVector<int64_t> order(dimsOf(weights).size());
    std::iota(order.begin(), order.end(), 0);
    auto transpose = builder.create<TransposeOp>(slice.getLoc(),
                                                 typeOf(weights).clone(ArrayRef<int64_t>(transposed(dimsOf(weights)))),
                                                 weights, ArrayRef<int64_t>(transposed(order)));
    transpose->setAttr(storedAttrName, builder.getUnitAttr());
    stored = transpose;
    builder.setInsertionPoint(slice);
  }
  Value tap = builder.create<SliceOp>(
      slice.getLoc(), typeOf(slice.getResult()).clone(ArrayRef<int64_t>(transposed(dimsOf(slice.getResult())))), stored,
      transposed(slice.getOffsets()), transposed(slice.getStrides()));
  slice.replaceAllUsesWith(builder.create<ReshapeOp>(slice.getLoc(), slice.getType(), tap).getResult());
}

/// Weights [C, K...] of windows whose images have their channels last are stored with theirs last, too: a thread then
/// reads those of neighbouring channels at once.
void storeChannelsLast(MulOp product, const llvm::DenseSet<Value> &fixed, llvm::DenseMap<Value, Value> &tapsFirst) {
  for (unsigned i = 0; i < 2; ++i) {
    WindowOp windows = windowsOf(product->getOperand(i));
    Value weights = product->getOperand(1 - i);
    if (!windows || !windows.getOperand().getDefiningOp<TransposeOp>() || !fixed.contains(weights))
      continue;
    while (auto reshape = weights.getDefiningOp<ReshapeOp>())
      weights = reshape.getOperand();
    if (auto transpose = weights.getDefiningOp<TransposeOp>())
      transpose->setAttr(storedAttrName, UnitAttr::get(product.getContext()));
    if (auto slice = weights.getDefiningOp<SliceOp>();
        slice && !dimsOf(weights).empty() && dimsOf(weights).back() == 1 && dimsOf(slice.getOperand()).back() > 1)
      sliceTapsFirst(slice, tapsFirst);
  }
}

struct OrientWeightsPass : PassWrapper<OrientWeightsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OrientWeightsPass)
  OrientWeightsPass(const CostModel &model, SharedForms forms) : model(model), forms(forms) {}
  StringRef getArgument() const override { return "kfuse-orient-weights"; }
  StringRef getDescription() const override { return "Fixed weights are stored along K where that is faster"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock())
      return;
    Judge judge(model, getArgument(), storeAlongK, worthPart, forms);
    const llvm::DenseSet<Value> fixed = fixedValues(function);
    for (MatmulOp product : function.getOps<MatmulOp>())
      storeInOrder(product, fixed);
    llvm::DenseMap<Value, Value> tapsFirst;
    for (MulOp product : llvm::to_vector(function.getOps<MulOp>()))
      storeChannelsLast(product, fixed, tapsFirst);
    for (MatmulOp product : llvm::to_vector(function.getOps<MatmulOp>()))
      if (!product.getTransposeB() && fixed.contains(product.getRhs()) && !fixed.contains(product.getLhs()) &&
          judge.pays(product, fixed))
        storeAlongK(product, fixed);
    eraseDead(function.getBody().front());
  }

  const CostModel &model;
  SharedForms forms;
};

} // namespace

std::unique_ptr<Pass> createOrientWeightsPass(const CostModel &model, SharedForms forms) {
  return std::make_unique<OrientWeightsPass>(model, forms);
}

} // namespace kfuse::passes
