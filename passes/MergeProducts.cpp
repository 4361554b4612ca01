#include "passes/Passes.h"

#include "passes/Fixed.h"
#include "passes/products/Neighbourhood.h"

#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Of the neighbourhood's time: less is the estimates' noise.
constexpr double worthPart = 0.01;

/// Whether merging pays, by the estimate of a neighbourhood as it is and merged. Layers that are alike are
/// estimated once.
class Judge {
public:
  explicit Judge(const CostModel &model) : model(model) {}

  bool pays(ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> &fixed) {
    Neighbourhood apart = neighbourhoodOf(products, fixed);
    if (!apart.module)
      return false;
    std::string text;
    llvm::raw_string_ostream os(text);
    apart.module->print(os);
    auto [found, isNew] = known.try_emplace(text);
    if (isNew) {
      Neighbourhood merged = neighbourhoodOf(products, fixed);
      mergeProducts(merged.products, fixedValues(merged.main()));
      eraseDead(merged.main().getBody().front());
      double mergedUs = estimateUs(*merged.module, model), apartUs = estimateUs(*apart.module, model);
      found->second = mergedUs < apartUs * (1 - worthPart);
    }
    return found->second;
  }

private:
  const CostModel &model;
  std::map<std::string, bool> known;
};

struct MergeProductsPass : PassWrapper<MergeProductsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MergeProductsPass)
  explicit MergeProductsPass(const CostModel &model) : model(model) {}
  StringRef getArgument() const override { return "kfuse-merge-products"; }
  StringRef getDescription() const override { return "Products side by side become one where that is faster"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock())
      return;
    Judge judge(model);
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
};

} // namespace

std::unique_ptr<Pass> createMergeProductsPass(const CostModel &model) {
  return std::make_unique<MergeProductsPass>(model);
}

} // namespace kfuse::passes
