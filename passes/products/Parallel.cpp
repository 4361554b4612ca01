#include "passes/products/Parallel.h"

#include "passes/products/NormWeight.h"
#include "passes/simplify/Matchers.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Where the left operand of a product comes from: an equal part of `whole`, or all of it.
struct Source {
  Value whole;
  int64_t axis = -1;             ///< The axis that the parts divide; -1: each product reads all of it.
  int64_t number = 0, count = 1; ///< The part's index, and how many parts there are.
};

/// slice [offset, offset + size) of one dimension, size dividing offset and the whole; reshapes between that
/// only drop a dimension of one are looked through.
Source sourceOf(Value lhs) {
  Value value = lhs;
  if (auto reshape = value.getDefiningOp<ReshapeOp>())
    if (dimsOf(reshape.getOperand()).size() == 3 && dimsOf(reshape.getOperand()).drop_front() == dimsOf(lhs))
      value = reshape.getOperand();
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice)
    return {lhs};
  ArrayRef<int64_t> from = dimsOf(slice.getOperand()), to = slice.getType().getShape();
  Source source{slice.getOperand()};
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == from[i])
      continue;
    if (source.axis >= 0 || slice.getStrides()[i] != 1 || from[i] % to[i] != 0 || slice.getOffsets()[i] % to[i] != 0)
      return {lhs};
    source.axis = static_cast<int64_t>(i);
    source.number = slice.getOffsets()[i] / to[i];
    source.count = from[i] / to[i];
  }
  // [rows, heads * K] cut by columns, or [heads, rows, K] by heads.
  bool cutsColumns = to.size() == 2 && source.axis == 1, cutsHeads = to.size() == 3 && source.axis == 0;
  return cutsColumns || (cutsHeads && to[0] == 1 && value != lhs) ? source : Source{lhs};
}

/// Equal for products that one batched product can compute.
bool areAlike(MatmulOp a, MatmulOp b) {
  return a.getTransposeA() == b.getTransposeA() && a.getTransposeB() == b.getTransposeB() &&
         a.getTf32() == b.getTf32() && a.getLhs().getType() == b.getLhs().getType() &&
         a.getRhs().getType() == b.getRhs().getType();
}

/// The set with its products in the order of their parts; nothing when a part is missing or read twice.
Products completeSet(const Products &products) {
  MatmulOp first = products.front();
  Products ordered(sourceOf(first.getLhs()).count);
  for (MatmulOp product : products) {
    Source source = sourceOf(product.getLhs());
    if (!areAlike(product, first) || product.getTransposeA() || ordered[source.number])
      return {};
    ordered[source.number] = product;
  }
  return llvm::all_of(ordered, [](MatmulOp product) { return static_cast<bool>(product); }) ? ordered : Products();
}

/// Values computed alike, side by side, and the one that holds them all.
class SideBySide {
public:
  SideBySide(OpBuilder &builder, const llvm::DenseSet<Value> &fixed) : builder(builder), fixed(fixed) {}

  /// Columns of x [W0 W1 ...].
  void byColumns(ArrayRef<MatmulOp> products) {
    MatmulOp first = products.front();
    axis = first.getType().getRank() - 1;
    SmallVector<Value> weights;
    for (MatmulOp product : products)
      weights.push_back(product.getRhs());
    int64_t rank = dimsOf(weights.front()).size();
    Value weight = joined(weights, first.getTransposeB() ? rank - 2 : rank - 1);
    multiply(products, first.getLhs(), weight);
  }

  /// Batches of [x0; x1; ...] [W0; W1; ...].
  void byHeads(ArrayRef<MatmulOp> products) {
    MatmulOp first = products.front();
    Source source = sourceOf(first.getLhs());
    axis = 0;
    SmallVector<Value> weights;
    for (MatmulOp product : products)
      weights.push_back(stackable(product.getRhs()));
    Value heads = source.whole;
    if (dimsOf(heads).size() == 2) {
      ArrayRef<int64_t> dims = dimsOf(first.getLhs());
      Value split = reshapeTo(builder, heads, {dims[0], source.count, dims[1]});
      heads = builder.create<TransposeOp>(first.getLoc(), typeOf(split).clone({source.count, dims[0], dims[1]}), split,
                                          ArrayRef<int64_t>{1, 0, 2});
    }
    multiply(products, heads, joined(weights, 0));
  }

  /// f(part, c) of every part alike -> f(whole, all c).
  bool takeNext() {
    SmallVector<Operation *> next;
    for (Value part : parts) {
      if (!part.hasOneUse())
        return false;
      next.push_back(*part.user_begin());
    }
    Operation *first = next.front();
    unsigned place = parts.front().use_begin()->getOperandNumber();
    for (auto [part, op] : llvm::zip_equal(parts, next))
      if (!isElementwise(op) || op->getName() != first->getName() || op->getAttrs() != first->getAttrs() ||
          part.use_begin()->getOperandNumber() != place || dimsOf(op->getResult(0)) != dimsOf(part))
        return false;
    SmallVector<Value> operands;
    for (unsigned i = 0; i < first->getNumOperands(); ++i) {
      Value operand = i == place ? whole : operandOfAll(next, i);
      if (!operand)
        return false;
      operands.push_back(operand);
    }
    auto type = RankedTensorType::get(dimsOf(whole), typeOf(first->getResult(0)).getElementType());
    whole = cloneWith(builder, first, operands, type);
    for (auto [part, op] : llvm::zip_equal(parts, next))
      part = op->getResult(0);
    return true;
  }

  /// The parts as slices of the whole.
  void replaceParts() {
    SmallVector<int64_t> offsets(dimsOf(whole).size(), 0), strides(offsets.size(), 1);
    for (Value part : parts) {
      SmallVector<int64_t> shape(dimsOf(part));
      if (shape.size() < offsets.size())
        shape.insert(shape.begin(), 1);
      Value slice = builder.create<SliceOp>(whole.getLoc(), typeOf(part).clone(shape), whole, offsets, strides);
      offsets[axis] += shape[axis];
      part.replaceAllUsesWith(reshapeTo(builder, slice, dimsOf(part)));
    }
  }

private:
  void multiply(ArrayRef<MatmulOp> products, Value lhs, Value weight) {
    MatmulOp first = products.front();
    whole = builder.create<MatmulOp>(first.getLoc(), lhs, weight, first.getTransposeA(), first.getTransposeB(),
                                     first.getTf32());
    for (MatmulOp product : products)
      parts.push_back(product);
  }

  bool isStacked() const { return dimsOf(whole).size() != dimsOf(parts.front()).size(); }

  /// Operand `i` of all ops as one: the same scalar or one number a row for all, or fixed vectors of their parts.
  Value operandOfAll(ArrayRef<Operation *> ops, unsigned i) {
    Value first = ops.front()->getOperand(i);
    bool isSame = llvm::all_of(ops, [&](Operation *op) { return op->getOperand(i) == first; });
    bool isPerRow = !isStacked() && !dimsOf(first).empty() && dimsOf(first).back() == 1;
    if (isSame && (isPerRow || typeOf(first).getNumElements() == 1))
      return first;
    SmallVector<Value> vectors;
    for (auto [part, op] : llvm::zip_equal(parts, ops)) {
      Value operand = op->getOperand(i);
      ArrayRef<int64_t> dims = dimsOf(operand);
      if (!fixed.contains(operand) || dims.empty() || typeOf(operand).getNumElements() != dimsOf(part).back() ||
          dims.back() != dimsOf(part).back())
        return {};
      vectors.push_back(reshapeTo(builder, operand, isStacked() ? ArrayRef<int64_t>{1, 1, dims.back()} : dims.back()));
    }
    return joined(vectors, 0);
  }

  Value stackable(Value matrix) {
    SmallVector<int64_t> shape{1};
    llvm::append_range(shape, dimsOf(matrix));
    return reshapeTo(builder, matrix, shape);
  }

  Value joined(ArrayRef<Value> pieces, int64_t along) {
    SmallVector<int64_t> shape(dimsOf(pieces.front()));
    shape[along] = 0;
    for (Value piece : pieces)
      shape[along] += dimsOf(piece)[along];
    return builder.create<ConcatOp>(pieces.front().getLoc(), typeOf(pieces.front()).clone(shape), pieces, along);
  }

  OpBuilder &builder;
  const llvm::DenseSet<Value> &fixed;
  Value whole;
  SmallVector<Value> parts;
  int64_t axis = 0;
};

/// The point in the block behind all that a set reads, before all that reads it.
Operation *lastOf(ArrayRef<MatmulOp> products) {
  Operation *last = products.front();
  for (MatmulOp product : products)
    if (last->isBeforeInBlock(product))
      last = product;
  return last;
}

Operation *firstOf(ArrayRef<MatmulOp> products) {
  Operation *first = products.front();
  for (MatmulOp product : products)
    if (product->isBeforeInBlock(first))
      first = product;
  return first;
}

/// Readers of one part may stand before another, and so before what is new. A stretch is sorted, not the whole block,
/// which would take as long for each set of products.
void sortAround(Operation *first, Block::iterator end) {
  constexpr int stretch = 512; // More ops than a few layers have.
  Block *block = first->getBlock();
  for (int i = 0; i < stretch && end != Block::iterator(block->getTerminator()); ++i)
    ++end;
  sortTopologically(block, llvm::make_range(Block::iterator(first), end));
}

} // namespace

SmallVector<Products> parallelProducts(func::FuncOp function, const llvm::DenseSet<Value> &fixed) {
  llvm::MapVector<std::pair<Value, int64_t>, Products> byColumns, byHeads;
  for (auto product : function.getOps<MatmulOp>()) {
    if (!fixed.contains(product.getRhs()) || fixed.contains(product.getLhs()))
      continue;
    Source source = sourceOf(product.getLhs());
    bool flags = product.getTransposeB();
    byColumns[{product.getLhs(), flags}].push_back(product);
    if (source.axis >= 0)
      byHeads[{source.whole, source.axis}].push_back(product);
  }
  SmallVector<Products> sets;
  llvm::DenseSet<Operation *> taken;
  auto add = [&](const Products &products) {
    if (products.size() < 2 || llvm::any_of(products, [&](MatmulOp product) { return taken.contains(product); }))
      return;
    taken.insert(products.begin(), products.end());
    sets.push_back(products);
  };
  for (auto &[key, products] : byColumns) {
    MatmulOp first = products.front();
    llvm::erase_if(products, [&](MatmulOp product) {
      ArrayRef<int64_t> dims = dimsOf(product.getRhs()), model = dimsOf(first.getRhs());
      return product.getTransposeA() || dims.size() != model.size() || dims.drop_back(2) != model.drop_back(2) ||
             typeOf(product.getRhs()).getElementType() != typeOf(first.getRhs()).getElementType() ||
             product.getTf32() != first.getTf32();
    });
    add(products);
  }
  for (auto &[key, products] : byHeads)
    if (dimsOf(products.front()->getOperand(1)).size() == 2 && products.size() > 1)
      add(completeSet(products));
  return sets;
}

void mergeProducts(ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> &fixed) {
  OpBuilder builder(products.front()->getContext());
  builder.setInsertionPointAfter(lastOf(products));
  SideBySide side(builder, fixed);
  Value input = products.front()->getOperand(0);
  bool shareInput = llvm::all_of(products, [&](MatmulOp product) { return product.getLhs() == input; });
  if (shareInput) {
    foldNormWeight(products, fixed);
    side.byColumns(products);
  } else {
    side.byHeads(products);
  }
  while (side.takeNext())
    ;
  side.replaceParts();
  sortAround(firstOf(products), builder.getInsertionPoint());
}

} // namespace kfuse::passes
