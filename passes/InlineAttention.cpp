#include "passes/Passes.h"
#include "passes/fuse/Refusals.h"

#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"

using namespace mlir;

namespace kfuse::passes {
namespace {

/// Whether a template takes the attention whole, or why none does: asked on a kfuse.fused around it.
ir::FusionDecision decisionOf(ir::AttentionOp attention, const ir::CostModel &model) {
  OpBuilder builder(attention.getContext());
  OwningOpRef<ir::FusedOp> fused(
      builder.create<ir::FusedOp>(attention.getLoc(), attention.getResultTypes(), attention.getInputs()));
  Block &body = fused->getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : attention.getInputs())
    mapping.map(input, mapping.lookupOrNull(input) ? mapping.lookup(input)
                                                   : body.addArgument(input.getType(), input.getLoc()));
  builder.setInsertionPointToEnd(&body);
  Operation *inner = builder.clone(*attention, mapping);
  builder.create<ir::YieldOp>(attention.getLoc(), inner->getResults());
  return model.appraise(body).decision;
}

struct InlineAttentionPass : PassWrapper<InlineAttentionPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(InlineAttentionPass)
  explicit InlineAttentionPass(const ir::CostModel *model) : model(model) {}
  StringRef getArgument() const override { return "kfuse-inline-attention"; }
  StringRef getDescription() const override { return "kfuse.attention regions become their parts again"; }

  void runOnOperation() override {
    int64_t number = 0;
    SmallVector<ir::AttentionOp> regions(getOperation().getBody().getOps<ir::AttentionOp>());
    SmallVector<Attribute> reasons;
    for (ir::AttentionOp attention : regions) {
      const ir::FusionDecision decision =
          model ? decisionOf(attention, *model) : ir::FusionDecision::no("there is no target");
      reasons.push_back(StringAttr::get(&getContext(), decision.reason()));
      if (!decision)
        inlineParts(attention, number);
      ++number;
    }
    if (model && !reasons.empty())
      getOperation()->setAttr(attentionRefusalsAttrName, ArrayAttr::get(&getContext(), reasons));
  }

  static void inlineParts(ir::AttentionOp attention, int64_t number) {
    OpBuilder builder(attention);
    Block &body = attention.getBody().front();
    IRMapping mapping;
    mapping.map(body.getArguments(), attention.getInputs());
    for (Operation &op : body.without_terminator())
      builder.clone(op, mapping)->setAttr(ir::attentionAttrName, builder.getI64IntegerAttr(number));
    for (auto [result, yielded] : llvm::zip_equal(attention.getResults(), body.getTerminator()->getOperands()))
      result.replaceAllUsesWith(mapping.lookup(yielded));
    attention.erase();
  }

  const ir::CostModel *model;
};

} // namespace

std::unique_ptr<Pass> createInlineAttentionPass(const ir::CostModel *model) {
  return std::make_unique<InlineAttentionPass>(model);
}

} // namespace kfuse::passes
