#include "ir/reference/Attributes.h"
#include "ir/reference/Evaluator.h"
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Tensors up to this many elements are folded here; larger ones that depend on constants alone are
/// computed once by @prepare (kfuse-split-prepare).
constexpr int64_t foldedElements = 256;

DenseElementsAttr denseValue(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
}

/// Any op of constants, by the reference evaluator.
struct FoldConstants : RewritePattern {
  explicit FoldConstants(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 2, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<FusableOpInterface>(op) || op->getNumOperands() == 0 || !isSmall(op->getResult(0)))
      return failure();
    std::vector<reference::HostTensor> operands;
    for (Value operand : op->getOperands()) {
      DenseElementsAttr dense = isSmall(operand) ? denseValue(operand) : DenseElementsAttr();
      Result<reference::HostTensor> tensor = dense ? reference::tensorOf(dense) : Error{};
      if (!tensor)
        return failure();
      operands.push_back(std::move(*tensor));
    }
    Result<reference::HostTensor> result = reference::evaluateOp(op, operands);
    if (!result)
      return failure();
    rewriter.replaceOpWithNewOp<ConstantOp>(op, reference::attributeOf(*result, op->getContext()));
    return success();
  }

  static bool isSmall(Value value) { return typeOf(value).getNumElements() <= foldedElements; }
};

/// An elementwise op or view of splats, whatever their size, is a splat: computed on scalars.
struct FoldSplats : RewritePattern {
  explicit FoldSplats(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    auto fusable = dyn_cast<FusableOpInterface>(op);
    if (!fusable || op->getNumOperands() == 0 || !llvm::all_of(op->getOperands(), splatValue))
      return failure();
    bool movesOnly = fusable.getOpKind() == OpKind::Layout && op->getNumOperands() == 1;
    if (!movesOnly && (!isElementwise(op) || typeOf(op->getResult(0)).getRank() == 0))
      return failure();
    SmallVector<Value> scalars;
    for (Value operand : op->getOperands()) {
      DenseElementsAttr dense = denseValue(peelViews(operand));
      auto type = RankedTensorType::get({}, dense.getElementType());
      scalars.push_back(
          rewriter.create<ConstantOp>(op->getLoc(), DenseElementsAttr::get(type, dense.getSplatValue<Attribute>())));
    }
    RankedTensorType type = typeOf(op->getResult(0));
    Value scalar = movesOnly ? scalars[0] : cloneWith(rewriter, op, scalars, type.clone(ArrayRef<int64_t>()));
    if (DenseElementsAttr dense = denseValue(scalar))
      rewriter.replaceOpWithNewOp<ConstantOp>(op, DenseElementsAttr::get(type, dense.getSplatValue<Attribute>()));
    else
      rewriter.replaceOp(op, broadcastTo(rewriter, scalar, type));
    return success();
  }
};

} // namespace

void populateFolding(RewritePatternSet &patterns) { patterns.add<FoldConstants, FoldSplats>(patterns.getContext()); }

} // namespace kfuse::passes
