// Layout ops that cancel or compose.
#include "ir/IndexMath.h"
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

#include <numeric>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

bool isIdentity(ArrayRef<int64_t> permutation) {
  return llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size()));
}

/// Whether the permutation leaves the dimensions that are longer than 1 in their order: a reshape.
bool movesOnlyOnes(TransposeOp op) {
  ArrayRef<int64_t> dims = dimsOf(op.getOperand());
  SmallVector<int64_t> moved;
  for (int64_t dim : op.getPermutation())
    if (dims[dim] != 1)
      moved.push_back(dim);
  return llvm::is_sorted(moved);
}

LogicalResult dropReshape(ReshapeOp op, PatternRewriter &rewriter) {
  if (op.getOperand().getType() == op.getType()) {
    rewriter.replaceOp(op, op.getOperand());
    return success();
  }
  auto inner = op.getOperand().getDefiningOp<ReshapeOp>();
  if (!inner)
    return failure();
  rewriter.replaceOp(op, reshapeTo(rewriter, inner.getOperand(), op.getType().getShape()));
  return success();
}

LogicalResult composeTransposes(TransposeOp op, PatternRewriter &rewriter) {
  if (isIdentity(op.getPermutation())) {
    rewriter.replaceOp(op, op.getOperand());
    return success();
  }
  if (movesOnlyOnes(op)) {
    rewriter.replaceOp(op, reshapeTo(rewriter, op.getOperand(), op.getType().getShape()));
    return success();
  }
  auto inner = op.getOperand().getDefiningOp<TransposeOp>();
  if (!inner)
    return failure();
  SmallVector<int64_t> permutation;
  for (int64_t dim : op.getPermutation())
    permutation.push_back(inner.getPermutation()[dim]);
  rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), inner.getOperand(), permutation);
  return success();
}

/// The index in what a chain of reshapes and transposes takes of an element of what it gives, of sizes `dims`.
SmallVector<AffineExpr> indexBefore(ArrayRef<Operation *> chain, ArrayRef<int64_t> dims, MLIRContext *context) {
  SmallVector<AffineExpr> index;
  for (unsigned i = 0; i < dims.size(); ++i)
    index.push_back(getAffineDimExpr(i, context));
  for (Operation *view : chain) {
    ArrayRef<int64_t> from = dimsOf(view->getOperand(0)), to = dimsOf(view->getResult(0));
    if (auto transpose = dyn_cast<TransposeOp>(view)) {
      SmallVector<AffineExpr> before(index.size());
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        before[dim] = index[i];
      index = before;
    } else {
      index = delinearise(linearise(index, to, context), from);
    }
    for (AffineExpr &expr : index)
      expr = simplifyIndex(expr, dims);
  }
  return index;
}

/// The pure view `op` of `source`, through the reshapes and transposes between them, as one reshape
/// and one transpose: possible when each dimension of the result walks the source with one stride.
///
///     q [B, S, H*D] -> [B, S, H, D] -> [B, H, S, D] -> [B*H, S, D]     strides mix B and H: stays
///     k [B, S, H*D] -> [S*B, H, D] ... -> [B, H, D, S]                 reshape [B, S, H, D], transpose
LogicalResult rewriteView(Operation *op, Value source, ArrayRef<Operation *> chain, PatternRewriter &rewriter) {
  ArrayRef<int64_t> dims = dimsOf(op->getResult(0));
  MLIRContext *context = op->getContext();
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  AffineExpr address = simplifyIndex(linearise(indexBefore(chain, dims, context), dimsOf(source), context), dims);
  if (!linearForm(address, dims.size(), strides, offset))
    return failure();

  // The longer dimensions, by falling stride, are the source's shape cut finer; ones stay in place.
  SmallVector<int64_t> places, order, shape(dims), permutation(dims.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  for (int64_t dim : permutation)
    if (dims[dim] != 1)
      places.push_back(dim);
  order = places;
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  int64_t dense = 1;
  for (int64_t dim : llvm::reverse(order)) {
    if (strides[dim] != dense)
      return failure();
    dense *= dims[dim];
  }
  for (auto [place, dim] : llvm::zip_equal(places, order)) {
    shape[place] = dims[dim];
    permutation[dim] = place;
  }
  Value view = reshapeTo(rewriter, source, shape);
  if (!isIdentity(permutation))
    view = rewriter.create<TransposeOp>(op->getLoc(), op->getResult(0).getType(), view, permutation);
  rewriter.replaceOp(op, view);
  return success();
}

/// Brings chains of reshapes and transposes to one reshape, then one transpose.
LogicalResult normaliseViews(ReshapeOp op, PatternRewriter &rewriter) {
  constexpr size_t longestChain = 16; // What is longer is brought to this form piece by piece.
  SmallVector<Operation *> chain;
  for (Operation *view = op; isa_and_nonnull<ReshapeOp, TransposeOp>(view) && chain.size() < longestChain;
       view = view->getOperand(0).getDefiningOp())
    chain.push_back(view);
  for (size_t length = chain.size(); length >= 2; --length)
    if (succeeded(rewriteView(op, chain[length - 1]->getOperand(0), ArrayRef(chain).take_front(length), rewriter)))
      return success();
  return failure();
}

LogicalResult composeBroadcasts(BroadcastOp op, PatternRewriter &rewriter) {
  Value source = op.getOperand();
  if (auto inner = source.getDefiningOp<BroadcastOp>())
    source = inner.getOperand();
  else if (typeOf(source).getNumElements() != op.getType().getNumElements())
    return failure();
  rewriter.replaceOp(op, broadcastTo(rewriter, source, op.getType()));
  return success();
}

/// Broadcasting puts ones in front by itself: broadcast(reshape x [1, 1, N]) -> broadcast(x [N]).
LogicalResult broadcastReshaped(BroadcastOp op, PatternRewriter &rewriter) {
  auto reshape = op.getOperand().getDefiningOp<ReshapeOp>();
  if (!reshape)
    return failure();
  ArrayRef<int64_t> from = dimsOf(reshape.getOperand()), padded = reshape.getType().getShape();
  bool onlyAddsOnes = padded.size() > from.size() && padded.take_back(from.size()) == from &&
                      llvm::all_of(padded.drop_back(from.size()), [](int64_t size) { return size == 1; });
  if (!onlyAddsOnes)
    return failure();
  rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), reshape.getOperand());
  return success();
}

/// Whether a slice is all of its operand, in order: a stride of 0 repeats one element.
bool isWhole(SliceOp op) {
  if (op.getOperand().getType() != op.getType())
    return false;
  for (auto [offset, stride, size] : llvm::zip(op.getOffsets(), op.getStrides(), op.getType().getShape()))
    if (offset != 0 || (stride != 1 && size != 1))
      return false;
  return true;
}

LogicalResult composeSlices(SliceOp op, PatternRewriter &rewriter) {
  if (isWhole(op)) {
    rewriter.replaceOp(op, op.getOperand());
    return success();
  }
  auto inner = op.getOperand().getDefiningOp<SliceOp>();
  if (!inner)
    return failure();
  SmallVector<int64_t> offsets, strides;
  for (auto [outerOffset, outerStride, offset, stride] :
       llvm::zip(op.getOffsets(), op.getStrides(), inner.getOffsets(), inner.getStrides())) {
    offsets.push_back(offset + stride * outerOffset);
    strides.push_back(stride * outerStride);
  }
  rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), inner.getOperand(), offsets, strides);
  return success();
}

/// A slice that stays within one piece of a concat is a slice of that piece. All slices of a concat at once: looking
/// for the piece of each by itself takes pieces times slices.
LogicalResult slicesOfConcat(ConcatOp op, PatternRewriter &rewriter) {
  const int64_t axis = op.getAxis();
  struct Cut {
    int64_t first, last; ///< Positions along the axis.
    SliceOp slice;
  };
  SmallVector<Cut> cuts;
  for (Operation *user : op->getUsers())
    if (auto slice = dyn_cast<SliceOp>(user)) {
      const int64_t begin = slice.getOffsets()[axis];
      const int64_t end = begin + (slice.getType().getShape()[axis] - 1) * slice.getStrides()[axis];
      cuts.push_back({std::min(begin, end), std::max(begin, end), slice});
    }
  llvm::stable_sort(cuts, [](const Cut &a, const Cut &b) { return a.first < b.first; });
  bool changed = false;
  int64_t start = 0, piece = -1, end = 0;
  for (const Cut &cut : cuts) {
    for (; cut.first >= end; end = start + dimsOf(op->getOperand(piece))[axis]) {
      start = end;
      ++piece;
    }
    if (cut.last >= end)
      continue;
    SliceOp slice = cut.slice;
    SmallVector<int64_t> offsets(slice.getOffsets());
    offsets[axis] -= start;
    rewriter.setInsertionPoint(slice);
    rewriter.replaceOpWithNewOp<SliceOp>(slice, slice.getType(), op->getOperand(piece), offsets, slice.getStrides());
    changed = true;
  }
  return success(changed);
}

/// concat(a, concat(b, c)) along one axis is concat(a, b, c); concat(a) is a; adjacent slices that
/// make up the whole of x are x.
LogicalResult simplifyConcat(ConcatOp op, PatternRewriter &rewriter) {
  if (op->getNumOperands() == 1) {
    rewriter.replaceOp(op, op->getOperand(0));
    return success();
  }
  auto joinsAlike = [&](Operation *other) {
    auto concat = dyn_cast_or_null<ConcatOp>(other);
    return concat && concat.getAxis() == op.getAxis();
  };
  // Where one concat reads the other, the last takes the pieces of all: each by itself would list them again.
  if (op->hasOneUse() && joinsAlike(*op->user_begin()))
    return failure();
  SmallVector<Value> pieces, pending(llvm::reverse(op->getOperands()));
  int64_t axis = op.getAxis(), along = 0;
  bool cutsOne = true; // Whether the pieces are adjacent slices of one tensor.
  Value whole;
  for (Value piece : op->getOperands()) {
    auto slice = piece.getDefiningOp<SliceOp>();
    cutsOne &= slice && (!whole || slice.getOperand() == whole) && slice.getOffsets()[axis] == along &&
               llvm::all_of(slice.getStrides(), [](int64_t stride) { return stride == 1; });
    whole = slice ? slice.getOperand() : Value();
    along += dimsOf(piece)[axis];
  }
  if (cutsOne && whole.getType() == op.getType()) {
    rewriter.replaceOp(op, whole);
    return success();
  }
  constexpr size_t mostPieces = 1 << 16; // concat(x, x) upon itself doubles them each time.
  while (!pending.empty()) {
    if (pieces.size() == mostPieces)
      return failure();
    Value piece = pending.pop_back_val();
    if (joinsAlike(piece.getDefiningOp()))
      llvm::append_range(pending, llvm::reverse(piece.getDefiningOp()->getOperands()));
    else
      pieces.push_back(piece);
  }
  if (pieces.size() == op->getNumOperands())
    return failure();
  rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), pieces, op.getAxisAttr());
  return success();
}

/// gather at constant positions that keep one distance is a slice: one position, position ids that count
/// up. At one position over and over it is that slice, broadcast.
LogicalResult gatherEvenly(GatherOp op, PatternRewriter &rewriter) {
  int64_t axis = op.getAxis();
  auto positions = constantPositions(op.getIndices(), dimsOf(op.getData())[axis]);
  if (!positions)
    return failure();
  int64_t step = positions->size() > 1 ? (*positions)[1] - (*positions)[0] : 1;
  for (size_t i = 1; i < positions->size(); ++i)
    if ((*positions)[i] - (*positions)[i - 1] != step)
      return failure();
  SmallVector<int64_t> shape(dimsOf(op.getData())), offsets(shape.size(), 0), strides(shape.size(), 1);
  shape[axis] = step == 0 ? 1 : static_cast<int64_t>(positions->size());
  offsets[axis] = positions->front();
  strides[axis] = step == 0 ? 1 : step;
  Value rows = rewriter.create<SliceOp>(op.getLoc(), typeOf(op.getData()).clone(shape), op.getData(), offsets, strides);
  SmallVector<int64_t> picked(op.getType().getShape());
  if (step == 0)
    std::fill_n(picked.begin() + axis, dimsOf(op.getIndices()).size(), 1);
  rewriter.replaceOp(op, broadcastTo(rewriter, reshapeTo(rewriter, rows, picked), op.getType()));
  return success();
}

} // namespace

void populateLayout(RewritePatternSet &patterns) {
  patterns.add(dropReshape).add(composeTransposes).add(normaliseViews);
  patterns.add(composeBroadcasts).add(broadcastReshaped);
  patterns.add(composeSlices).add(slicesOfConcat).add(simplifyConcat).add(gatherEvenly);
}

} // namespace kfuse::passes
