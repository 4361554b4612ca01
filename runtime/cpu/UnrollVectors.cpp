#include "runtime/cpu/Lowering.h"

#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace kfuse::runtime::cpu {
namespace {

LogicalResult rewrite(ModuleOp module, llvm::function_ref<void(RewritePatternSet &)> populate) {
  RewritePatternSet patterns(module.getContext());
  populate(patterns);
  return applyPatternsAndFoldGreedily(module, std::move(patterns));
}

/// Stores into a view marked "nontemporal" go past the caches: memory is not read first to fill a line
/// that is written whole.
void bypassCaches(ModuleOp module) {
  module.walk([](vector::StoreOp store) {
    auto view = store.getBase().getDefiningOp<memref::ReinterpretCastOp>();
    store.setNontemporal(view && view->hasAttr("nontemporal"));
  });
}

} // namespace

LogicalResult unrollVectors(ModuleOp module) {
  vector::VectorTransformsOptions options;
  options.setVectorTransformsOptions(vector::VectorContractLowering::OuterProduct)
      .setVectorMultiReductionLowering(vector::VectorMultiReductionLowering::InnerReduction)
      .setVectorTransposeLowering(vector::VectorTransposeLowering::Shuffle16x16);
  // Products that are summed become contractions before anything else takes them apart.
  LogicalResult contracted = rewrite(module, [](RewritePatternSet &patterns) {
    vector::populateVectorTransferPermutationMapLoweringPatterns(patterns);
    vector::populateVectorReductionToContractPatterns(patterns);
    vector::populateSinkVectorBroadcastPatterns(patterns);
  });
  LogicalResult unrolled = rewrite(module, [&](RewritePatternSet &patterns) {
    vector::populateVectorContractLoweringPatterns(patterns, options);
    vector::populateVectorOuterProductLoweringPatterns(patterns);
    vector::populateVectorMultiReductionLoweringPatterns(patterns, options.vectorMultiReductionLowering);
    vector::populateVectorTransposeLoweringPatterns(patterns, options);
    vector::populateVectorBroadcastLoweringPatterns(patterns);
    vector::populateVectorShapeCastLoweringPatterns(patterns);
    vector::populateVectorTransferLoweringPatterns(patterns, /*maxTransferRank=*/1);
    populateVectorToSCFConversionPatterns(patterns, VectorTransferToSCFOptions().enableFullUnroll());
  });
  bypassCaches(module);
  return success(succeeded(contracted) && succeeded(unrolled));
}

} // namespace kfuse::runtime::cpu
