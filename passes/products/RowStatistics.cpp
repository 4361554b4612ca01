#include "passes/products/RowStatistics.h"

#include "passes/products/NormWeight.h"
#include "passes/simplify/Matchers.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

bool isBF16(Value value) { return typeOf(value).getElementType().isBF16(); }

/// Ops on f32 tensors, one after the other.
struct F32Builder {
  OpBuilder &builder;
  Location location;

  Value wide(Value value) { return builder.create<CastOp>(location, typeOf(value).clone(builder.getF32Type()), value); }
  template <class Op> Value apply(Value a, Value b) { return builder.create<Op>(location, a, b); }
  Value meanOfRows(Value value) {
    Value mean = builder.create<ReduceOp>(location, value, "mean", ArrayRef<int64_t>{typeOf(value).getRank() - 1});
    return reshapeTo(builder, mean, rowsOf(value));
  }
  /// [rows..., 1]
  static SmallVector<int64_t> rowsOf(Value value) {
    SmallVector<int64_t> shape(dimsOf(value));
    shape.back() = 1;
    return shape;
  }
};

/// 1 / sqrt(mean of squares + epsilon) of each row of a norm's input, [rows..., 1] in f32.
Value scaleOfRows(F32Builder f32, RmsNormOp norm) {
  Value x = f32.wide(norm.getOperand()), squares = f32.meanOfRows(f32.apply<MulOp>(x, x));
  Value epsilon = makeSplat(f32.builder, f32.location, RankedTensorType::get({}, f32.builder.getF32Type()),
                            norm.getEpsilon().convertToDouble());
  return f32.builder.create<RsqrtOp>(f32.location, f32.apply<AddOp>(squares, epsilon));
}

} // namespace

SmallVector<SmallVector<MatmulOp>> normedProducts(func::FuncOp function, const llvm::DenseSet<Value> &fixed) {
  llvm::MapVector<Operation *, SmallVector<MatmulOp>> readers;
  for (auto product : function.getOps<MatmulOp>())
    if (auto norm = dyn_cast_or_null<RmsNormOp>(normBehind(product.getLhs())))
      readers[norm].push_back(product);
  SmallVector<SmallVector<MatmulOp>> sets;
  for (auto &[op, products] : readers) {
    auto norm = cast<RmsNormOp>(op);
    auto isFixed = [&](Value value) { return !value || (fixed.contains(value) && isBF16(value)); };
    bool takesAll = llvm::all_of(products, [&](MatmulOp product) {
      return !product.getTransposeA() && isFixed(product.getRhs()) && typeOf(product.getRhs()).getRank() == 2;
    });
    if (takesAll && isBF16(norm.getOperand()) && isFixed(norm.getWeight()) && !fixed.contains(norm.getOperand()) &&
        isReadByAlone(norm, products))
      sets.push_back(products);
  }
  return sets;
}

void applyNormBehind(ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> &fixed) {
  auto norm = cast<RmsNormOp>(normBehind(products.front()->getOperand(0)));
  foldNormWeight(products, fixed);
  OpBuilder atNorm(norm);
  Value scale = scaleOfRows({atNorm, norm.getLoc()}, norm);
  for (MatmulOp product : products) {
    OpBuilder builder(product->getContext());
    builder.setInsertionPointAfter(product);
    F32Builder f32{builder, product.getLoc()};
    Value wide = f32.wide(product),
          scaled = f32.apply<MulOp>(wide, reshapeTo(builder, scale, F32Builder::rowsOf(product.getLhs())));
    Value result = builder.create<CastOp>(product.getLoc(), product.getType(), scaled);
    product.getResult().replaceAllUsesExcept(result, wide.getDefiningOp());
    OpBuilder before(product);
    product->setOperand(0, reshapeTo(before, norm.getOperand(), dimsOf(product.getLhs())));
  }
}

} // namespace kfuse::passes
