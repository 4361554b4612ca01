#include "passes/Passes.h"
#include "passes/simplify/Attention.h"
#include "passes/simplify/Patterns.h"

#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace kfuse::passes {
namespace {

using Populate = void (*)(RewritePatternSet &);

/// Applies the patterns until none matches; then equal ops are made one.
LogicalResult rewrite(func::FuncOp function, ArrayRef<Populate> themes) {
  RewritePatternSet patterns(function.getContext());
  for (Populate populate : themes)
    populate(patterns);
  GreedyRewriteConfig config;
  config.useTopDownTraversal = true;
  // A slice of one token moves up through a layer of BERT in more than the ten rounds that are MLIR's default. Of
  // patterns that undo each other, there is an end after so many rewrites of each op.
  constexpr int64_t mostRewritesPerOp = 1000;
  config.maxIterations = GreedyRewriteConfig::kNoLimit;
  config.maxNumRewrites = mostRewritesPerOp * (10 + std::distance(function.getOps().begin(), function.getOps().end()));
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  if (failed(applyPatternsAndFoldGreedily(function, std::move(patterns), config)))
    return function.emitError("simplification did not come to an end");
  DominanceInfo dominance(function);
  IRRewriter rewriter(function.getContext());
  eliminateCommonSubExpressions(rewriter, dominance, function);
  return success();
}

struct SimplifyPass : PassWrapper<SimplifyPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SimplifyPass)
  StringRef getArgument() const override { return "kfuse-simplify"; }
  StringRef getDescription() const override {
    return "Canonical forms; decomposed norms, activations, rotary and attention recognised";
  }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<ir::KfuseDialect>(); }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (failed(simplify(function)))
      return signalPassFailure();
    recogniseAttention(function);
  }

  /// What exporters take apart is put together first, while its parts still look as they wrote them.
  static LogicalResult simplify(func::FuncOp function) {
    SmallVector<Populate> clean{populateArithmetic, populateFolding, populateLayout};
    auto with = [&](std::initializer_list<Populate> more) {
      SmallVector<Populate> themes(clean);
      themes.append(more);
      return themes;
    };
    return success(
        succeeded(rewrite(function, clean)) &&
        succeeded(rewrite(function, with({populateActivations, populateNorms, populateRotary}))) &&
        succeeded(rewrite(function, with({populateSinking, populateMatmul, populateRowOrder}))) &&
        succeeded(rewrite(function, with({populateSinking, populateMatmul, populateSlices, populateActOrder}))) &&
        succeeded(rewrite(function, with({populateSinking, populateMatmul, populateSlices, populateRanks}))));
  }
};

} // namespace

std::unique_ptr<Pass> createSimplifyPass() { return std::make_unique<SimplifyPass>(); }

} // namespace kfuse::passes
