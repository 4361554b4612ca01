#include "passes/Passes.h"

#include "passes/Fixed.h"
#include "passes/products/Judge.h"
#include "passes/products/RowStatistics.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// An epilogue that reads what the product alone does not costs it 1.5 to 2.5 % (a residual), which no estimate knows.
constexpr double worthPart = 0.025;

struct FoldNormsPass : PassWrapper<FoldNormsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FoldNormsPass)
  FoldNormsPass(const CostModel &model, SharedForms forms) : model(model), forms(forms) {}
  StringRef getArgument() const override { return "kfuse-fold-norms"; }
  StringRef getDescription() const override {
    return "Norms in front of products become statistics of rows where that is faster";
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock())
      return;
    Judge judge(model, getArgument(), applyNormBehind, worthPart, forms);
    llvm::DenseSet<Value> fixed = fixedValues(function);
    for (ArrayRef<MatmulOp> products : normedProducts(function, fixed))
      if (judge.pays(products, fixed))
        applyNormBehind(products, fixed);
    eraseDead(function.getBody().front());
  }

  const CostModel &model;
  SharedForms forms;
};

} // namespace

std::unique_ptr<Pass> createFoldNormsPass(const CostModel &model, SharedForms forms) {
  return std::make_unique<FoldNormsPass>(model, forms);
}

} // namespace kfuse::passes
