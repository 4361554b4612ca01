#include "passes/Passes.h"

#include "passes/Fixed.h"
#include "passes/products/Judge.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

constexpr double worthPart = 0.01; ///< Less is the estimates' noise.

struct MergeProductsPass : PassWrapper<MergeProductsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MergeProductsPass)
  MergeProductsPass(const CostModel &model, SharedForms forms) : model(model), forms(forms) {}
  StringRef getArgument() const override { return "kfuse-merge-products"; }
  StringRef getDescription() const override { return "Products side by side become one where that is faster"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock())
      return;
    Judge judge(model, getArgument(), mergeProducts, worthPart, forms);
    bool merged = true;
    while (merged) { // Heads side by side are merged layer by layer.
      merged = false;
      llvm::DenseSet<Value> fixed = fixedValues(function);
      for (const Products &products : parallelProducts(function, fixed))
        if (judge.pays(products, fixed)) {
          mergeProducts(products, fixed);
          merged = true;
        }
      eraseDead(function.getBody().front());
    }
  }

  const CostModel &model;
  SharedForms forms;
};

} // namespace

std::unique_ptr<Pass> createMergeProductsPass(const CostModel &model, SharedForms forms) {
  return std::make_unique<MergeProductsPass>(model, forms);
}

} // namespace kfuse::passes
