// Exporters put rows into another order and merge them for one product, and put them back behind it:
//
//   [B, H, S, D] -> [S, B, H, D] -> [S*B, H*D] -> product -> + bias -> [S, B, N] -> [B, S, N]
//
// Rows of a product are independent, so both steps go: the product first works on [S, B, H*D] again,
// then the order of S and B moves behind it and meets its inverse.
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Whether `operand` is the same for all rows of a matrix of `columns` columns.
bool isRowVector(Value operand, int64_t columns) {
  return typeOf(operand).getNumElements() == 1 || (dimsOf(operand).size() == 1 && dimsOf(operand)[0] == columns);
}

/// reshape [rows..., N] of elementwise ops on a product [R, N] of a merged [R, K]: all of it on rows...
LogicalResult unmergeRows(ReshapeOp op, PatternRewriter &rewriter) {
  ArrayRef<int64_t> shape = op.getType().getShape(), matrix = dimsOf(op.getOperand());
  if (matrix.size() != 2 || shape.size() <= 2 || shape.back() != matrix.back())
    return failure();
  SmallVector<std::pair<Operation *, unsigned>> chain; // Each op with its operand that goes on.
  Value value = op.getOperand();
  while (value.hasOneUse() && value.getDefiningOp() && isElementwise(value.getDefiningOp())) {
    Operation *step = value.getDefiningOp();
    auto isPath = [&](Value operand) { return dimsOf(operand) == matrix; };
    if (llvm::count_if(step->getOperands(), isPath) != 1 || !llvm::all_of(step->getOperands(), [&](Value operand) {
          return isPath(operand) || isRowVector(operand, matrix.back());
        }))
      return failure();
    unsigned path = llvm::find_if(step->getOperands(), isPath) - step->operand_begin();
    chain.push_back({step, path});
    value = step->getOperand(path);
  }
  auto product = value.getDefiningOp<MatmulOp>();
  auto merged = product && product->hasOneUse() && !product.getTransposeA()
                    ? product.getLhs().getDefiningOp<ReshapeOp>()
                    : ReshapeOp();
  ArrayRef<int64_t> rows = shape.drop_back();
  if (!merged || dimsOf(merged.getOperand()).take_front(rows.size()) != rows || dimsOf(product.getRhs()).size() != 2)
    return failure();

  SmallVector<int64_t> unmerged(rows);
  unmerged.push_back(product.getK());
  value = rewriter.create<MatmulOp>(product.getLoc(), reshapeTo(rewriter, merged.getOperand(), unmerged),
                                    product.getRhs(), false, product.getTransposeB(), product.getTf32());
  for (auto [step, path] : llvm::reverse(chain)) {
    SmallVector<Value> operands(step->getOperands());
    operands[path] = value;
    value = cloneWith(rewriter, step, operands, typeOf(step->getResult(0)).clone(shape));
  }
  rewriter.replaceOp(op, value);
  return success();
}

/// reshape(transpose x) that merges whole groups of dimensions: the order of the groups before the
/// last is set by a transpose behind the reshape instead.
LogicalResult orderGroupsLast(ReshapeOp op, PatternRewriter &rewriter) {
  auto transpose = op.getOperand().getDefiningOp<TransposeOp>();
  ArrayRef<int64_t> shape = op.getType().getShape();
  auto counts = transpose ? mergedCounts(transpose.getType().getShape(), shape) : std::nullopt;
  if (!counts || shape.size() < 3 || llvm::is_contained(*counts, 0))
    return failure();
  SmallVector<ArrayRef<int64_t>> groups;
  ArrayRef<int64_t> rest = transpose.getPermutation();
  for (int64_t count : *counts) {
    groups.push_back(rest.take_front(count));
    rest = rest.drop_front(count);
  }
  SmallVector<int64_t> order(llvm::to_vector(llvm::seq<int64_t>(0, groups.size())));
  std::stable_sort(order.begin(), order.end() - 1,
                   [&](int64_t a, int64_t b) { return groups[a].front() < groups[b].front(); });
  if (llvm::is_sorted(order))
    return failure();

  SmallVector<int64_t> permutation, fine, coarse, back(order.size());
  for (auto [place, group] : llvm::enumerate(order)) {
    llvm::append_range(permutation, groups[group]);
    coarse.push_back(shape[group]);
    back[group] = place;
  }
  for (int64_t dim : permutation)
    fine.push_back(dimsOf(transpose.getOperand())[dim]);
  Value sorted = rewriter.create<TransposeOp>(transpose.getLoc(), transpose.getType().clone(fine),
                                              transpose.getOperand(), permutation);
  rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), reshapeTo(rewriter, sorted, coarse), back);
  return success();
}

} // namespace

void populateRowOrder(RewritePatternSet &patterns) { patterns.add(unmergeRows).add(orderGroupsLast); }

} // namespace kfuse::passes
