#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// matmul(a, transpose b): the flag takes the swap of the last two dimensions where it leaves the
/// source's contiguous dimension last; a permutation of batches may stay.
LogicalResult transposeBecomesFlag(MatmulOp op, PatternRewriter &rewriter) {
  bool flags[2] = {op.getTransposeA(), op.getTransposeB()};
  for (unsigned i : {0U, 1U}) {
    auto transpose = op->getOperand(i).getDefiningOp<TransposeOp>();
    if (!transpose)
      continue;
    SmallVector<int64_t> permutation(transpose.getPermutation());
    int64_t rank = permutation.size();
    if (permutation[rank - 2] != rank - 1)
      continue;
    std::swap(permutation[rank - 2], permutation[rank - 1]);
    SmallVector<int64_t> shape(transpose.getType().getShape());
    std::swap(shape[rank - 2], shape[rank - 1]);
    SmallVector<Value> operands(op->getOperands());
    operands[i] = rewriter.createOrFold<TransposeOp>(op.getLoc(), transpose.getType().clone(shape),
                                                     transpose.getOperand(), permutation);
    flags[i] = !flags[i];
    rewriter.replaceOpWithNewOp<MatmulOp>(op, operands[0], operands[1], flags[0], flags[1]);
    return success();
  }
  return failure();
}

/// Expanded heads: each of G query heads reads one key (or value) head that was copied G times.
///
///     k [B, H, S, D] -> [B, H, 1, S, D] -> broadcast [B, H, G, S, D] -> [B, H*G, S, D] = matmul's rhs
///
/// The product takes the broadcast tensor and broadcasts the batch itself; its other operand and its
/// result are reshaped, which costs nothing. (Motion then drops the broadcast.)
LogicalResult groupExpandedHeads(MatmulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0U, 1U}) {
    auto merged = op->getOperand(i).getDefiningOp<ReshapeOp>();
    auto expanded = merged ? merged.getOperand().getDefiningOp<BroadcastOp>() : BroadcastOp();
    if (!expanded)
      continue;
    ArrayRef<int64_t> fine = expanded.getType().getShape(), coarse = merged.getType().getShape();
    Value other = op->getOperand(1 - i);
    ArrayRef<int64_t> otherDims = dimsOf(other);
    if (fine.size() <= coarse.size() || fine.take_back(2) != coarse.take_back(2) ||
        otherDims.drop_back(2) != coarse.drop_back(2))
      continue;
    auto finer = [&](ArrayRef<int64_t> matrix) {
      SmallVector<int64_t> shape(fine.drop_back(2));
      llvm::append_range(shape, matrix.take_back(2));
      return shape;
    };
    SmallVector<Value> operands(2);
    operands[i] = expanded;
    operands[1 - i] = reshapeTo(rewriter, other, finer(otherDims));
    Value product = rewriter.create<MatmulOp>(op.getLoc(), operands[0], operands[1], op.getTransposeA(),
                                              op.getTransposeB(), op.getTf32());
    rewriter.replaceOp(op, reshapeTo(rewriter, product, op.getType().getShape()));
    return success();
  }
  return failure();
}

} // namespace

void populateMatmul(RewritePatternSet &patterns) { patterns.add(transposeBecomesFlag).add(groupExpandedHeads); }

} // namespace kfuse::passes
