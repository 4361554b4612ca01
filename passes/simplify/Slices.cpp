// Slices travel towards the arguments, so that nothing is computed that is not used.
#include "ir/IndexMath.h"
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

LogicalResult sliceOfTranspose(SliceOp op, PatternRewriter &rewriter) {
  auto transpose = op.getOperand().getDefiningOp<TransposeOp>();
  if (!transpose)
    return failure();
  SmallVector<int64_t> back = inverse(transpose.getPermutation());
  auto type = op.getType().clone(permuted(op.getType().getShape(), back));
  Value slice = rewriter.create<SliceOp>(op.getLoc(), type, transpose.getOperand(), permuted(op.getOffsets(), back),
                                         permuted(op.getStrides(), back));
  rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), slice, transpose.getPermutation());
  return success();
}

/// A box of a tensor: where it begins, its steps and its sizes.
struct Box {
  SmallVector<int64_t> offsets, strides, shape;

  void append(int64_t offset, int64_t stride, int64_t size) {
    offsets.push_back(offset);
    strides.push_back(stride);
    shape.push_back(size);
  }
  Box dimensions(size_t begin, size_t end) const {
    auto cut = [&](ArrayRef<int64_t> all) { return SmallVector<int64_t>(all.slice(begin, end - begin)); };
    return {cut(offsets), cut(strides), cut(shape)};
  }
};

/// The box of a tensor of shape `from` that is `box` of its reshape to `to`: possible when each
/// dimension of `from` is walked by dimensions of the box that follow each other.
LogicalResult boxBeforeReshape(const Box &box, ArrayRef<int64_t> to, ArrayRef<int64_t> from, MLIRContext *context,
                               Box &before) {
  ArrayRef<int64_t> dims = box.shape;
  SmallVector<AffineExpr> index;
  for (size_t i = 0; i < dims.size(); ++i)
    index.push_back(getAffineDimExpr(i, context) * box.strides[i] + box.offsets[i]);
  AffineExpr address = simplifyIndex(linearise(index, to, context), dims);
  size_t nextDim = 0; // Dimensions of the box are used up from the left.
  for (AffineExpr expr : delinearise(address, from)) {
    SmallVector<int64_t> weights, used;
    int64_t offset = 0, stride = 1, size = 1;
    if (!linearForm(simplifyIndex(expr, dims), dims.size(), weights, offset))
      return failure();
    for (; nextDim < dims.size() && (dims[nextDim] == 1 || weights[nextDim] != 0); ++nextDim)
      if (dims[nextDim] != 1)
        used.push_back(nextDim);
    for (int64_t dim : llvm::reverse(used)) {
      stride = size == 1 ? weights[dim] : stride;
      if (weights[dim] != stride * size)
        return failure();
      size *= dims[dim];
    }
    before.append(offset, stride, size);
  }
  return success();
}

/// slice(reshape x) -> reshape(slice x) where each dimension of x is cut by itself: column group i of
/// [M, 3 * N] seen as [M, 3, N] is the columns from i * N. Dimensions that are reshaped among
/// themselves are looked at by themselves.
LogicalResult sliceOfReshape(SliceOp op, PatternRewriter &rewriter) {
  auto reshape = op.getOperand().getDefiningOp<ReshapeOp>();
  if (!reshape)
    return failure();
  ArrayRef<int64_t> to = reshape.getType().getShape(), from = dimsOf(reshape.getOperand());
  const Box box{SmallVector<int64_t>(op.getOffsets()), SmallVector<int64_t>(op.getStrides()),
                SmallVector<int64_t>(op.getType().getShape())};
  Box source;
  for (size_t toBegin = 0, fromBegin = 0; toBegin < to.size() || fromBegin < from.size();) {
    // The next dimensions of both shapes that hold as many elements.
    size_t toEnd = toBegin, fromEnd = fromBegin;
    int64_t toSize = toEnd < to.size() ? to[toEnd++] : 1, fromSize = fromEnd < from.size() ? from[fromEnd++] : 1;
    while (toSize != fromSize)
      (toSize < fromSize ? toSize *= to[toEnd++] : fromSize *= from[fromEnd++]);
    Box part = box.dimensions(toBegin, toEnd);
    ArrayRef<int64_t> toPart = to.slice(toBegin, toEnd - toBegin),
                      fromPart = from.slice(fromBegin, fromEnd - fromBegin);
    bool isWhole =
        ArrayRef(part.shape) == toPart && llvm::all_of(part.offsets, [](int64_t offset) { return offset == 0; });
    if (isWhole)
      for (int64_t size : fromPart)
        source.append(0, 1, size);
    else if (failed(boxBeforeReshape(part, toPart, fromPart, op.getContext(), source)))
      return failure();
    toBegin = toEnd;
    fromBegin = fromEnd;
  }
  if (ArrayRef(source.shape) == from || elementsIn(source.shape) != op.getType().getNumElements())
    return failure();
  Value whole = reshape.getOperand();
  Value slice =
      rewriter.create<SliceOp>(op.getLoc(), typeOf(whole).clone(source.shape), whole, source.offsets, source.strides);
  rewriter.replaceOp(op, reshapeTo(rewriter, slice, op.getType().getShape()));
  return success();
}

/// The part of `operand` (which broadcasts against a value that `op` slices) that the slice needs.
Value sliceLike(SliceOp op, Value operand, PatternRewriter &rewriter) {
  ArrayRef<int64_t> dims = dimsOf(operand), to = op.getType().getShape();
  size_t skipped = to.size() - dims.size();
  SmallVector<int64_t> shape(dims), offsets(dims.size(), 0), strides(dims.size(), 1);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1)
      continue;
    shape[i] = to[skipped + i];
    offsets[i] = op.getOffsets()[skipped + i];
    strides[i] = op.getStrides()[skipped + i];
  }
  return rewriter.createOrFold<SliceOp>(op.getLoc(), typeOf(operand).clone(shape), operand, offsets, strides);
}

LogicalResult sliceOfBroadcast(SliceOp op, PatternRewriter &rewriter) {
  auto broadcast = op.getOperand().getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return failure();
  rewriter.replaceOp(op, broadcastTo(rewriter, sliceLike(op, broadcast.getOperand(), rewriter), op.getType()));
  return success();
}

/// Whether nobody uses more of the operand than this slice, which makes no dimension longer: a stride of 0 may.
bool isAllThatIsUsed(SliceOp op) {
  for (auto [from, to] : llvm::zip_equal(dimsOf(op.getOperand()), op.getType().getShape()))
    if (to > from)
      return false;
  return llvm::all_of(op.getOperand().getUsers(), [&](Operation *user) {
    return user->getName() == op->getName() && user->getAttrs() == op->getAttrs() &&
           user->getResultTypes() == op->getResultTypes();
  });
}

/// slice(f(x)) -> f(slice x) where f is elementwise, or works on rows and the slice keeps them whole.
LogicalResult sliceOfComputed(SliceOp op, PatternRewriter &rewriter) {
  Operation *source = op.getOperand().getDefiningOp();
  if (!source || !isAllThatIsUsed(op) || op.getType().getRank() == 0)
    return failure();
  bool rowwise = isRowwise(source) && !isa<RotaryOp>(source);
  if (!isElementwise(source) && !rowwise)
    return failure();
  const bool keepsRows = op.getType().getShape().back() == typeOf(source->getResult(0)).getShape().back() &&
                         op.getOffsets().back() == 0 && op.getStrides().back() == 1;
  if (rowwise && !keepsRows)
    return failure();
  SmallVector<Value> operands(source->getOperands());
  for (Value &operand : operands)
    if (!rowwise || operand == source->getOperand(0))
      operand = sliceLike(op, operand, rewriter);
  rewriter.replaceOp(op, cloneWith(rewriter, source, operands, op.getType()));
  return success();
}

/// slice(matmul(a, b)) -> matmul(slice a, slice b): rows of a, columns of b.
LogicalResult sliceOfMatmul(SliceOp op, PatternRewriter &rewriter) {
  auto product = op.getOperand().getDefiningOp<MatmulOp>();
  if (!product || !isAllThatIsUsed(op))
    return failure();
  auto cut = [&](Value operand, bool transposed, bool isLhs) {
    ArrayRef<int64_t> dims = dimsOf(operand);
    int64_t rank = op.getType().getRank(), skipped = rank - static_cast<int64_t>(dims.size());
    SmallVector<int64_t> shape(dims), offsets(dims.size(), 0), strides(dims.size(), 1);
    auto take = [&](int64_t dim, int64_t resultDim) {
      shape[dim] = op.getType().getShape()[resultDim];
      offsets[dim] = op.getOffsets()[resultDim];
      strides[dim] = op.getStrides()[resultDim];
    };
    for (size_t i = 0; i + 2 < dims.size(); ++i)
      if (dims[i] != 1)
        take(i, skipped + i);
    bool freeIsLast = isLhs == transposed; // lhs [M, K], rhs [K, N].
    take(dims.size() - (freeIsLast ? 1 : 2), rank - (isLhs ? 2 : 1));
    return rewriter.create<SliceOp>(op.getLoc(), typeOf(operand).clone(shape), operand, offsets, strides);
  };
  Value lhs = cut(product.getLhs(), product.getTransposeA(), true),
        rhs = cut(product.getRhs(), product.getTransposeB(), false);
  rewriter.replaceOpWithNewOp<MatmulOp>(op, lhs, rhs, product.getTransposeA(), product.getTransposeB(),
                                        product.getTf32());
  return success();
}

} // namespace

void populateSlices(RewritePatternSet &patterns) {
  patterns.add(sliceOfTranspose).add(sliceOfReshape).add(sliceOfBroadcast).add(sliceOfComputed).add(sliceOfMatmul);
}

} // namespace kfuse::passes
