#include "passes/products/RowStatistics.h"

#include "passes/products/NormWeight.h"
#include "passes/simplify/Matchers.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// What is asked of both kinds of norms.
struct Norm {
  Operation *op;
  Value input, weight, bias;
  double epsilon = 0;
  bool isCentred = false; ///< Around its mean.

  explicit Norm(Operation *op) : op(op) {
    if (auto rms = dyn_cast<RmsNormOp>(op)) {
      input = rms.getOperand(), weight = rms.getWeight();
      epsilon = rms.getEpsilon().convertToDouble();
    } else {
      auto layer = cast<LayerNormOp>(op);
      input = layer.getOperand(), weight = layer.getWeight(), bias = layer.getBias();
      epsilon = layer.getEpsilon().convertToDouble(), isCentred = true;
    }
  }
};

bool isBF16(Value value) { return typeOf(value).getElementType().isBF16(); }

/// Ops on f32 tensors, one after the other.
struct F32Builder {
  OpBuilder &builder;
  Location location;

  Value wide(Value value) { return builder.create<CastOp>(location, typeOf(value).clone(builder.getF32Type()), value); }
  template <class Op> Value apply(Value a, Value b) { return builder.create<Op>(location, a, b); }
  /// Over one dimension, which the result drops.
  Value reduce(Value value, StringRef function, int64_t axis) {
    return builder.create<ReduceOp>(location, value, function, ArrayRef<int64_t>{axis});
  }
  Value meanOfRows(Value value) {
    Value mean = reduce(value, "mean", typeOf(value).getRank() - 1);
    return reshapeTo(builder, mean, rowsOf(value));
  }
  /// [rows..., 1]
  static SmallVector<int64_t> rowsOf(Value value) {
    SmallVector<int64_t> shape(dimsOf(value));
    shape.back() = 1;
    return shape;
  }
};

/// Numbers of each row of a norm's input, [rows..., 1] in f32.
struct Statistics {
  Value scale; ///< 1 / sqrt(variance + epsilon)
  Value shift; ///< The mean times that; null where the norm is not centred.

  Statistics(F32Builder f32, const Norm &norm) {
    Value x = f32.wide(norm.input), mean;
    if (norm.isCentred) {
      mean = f32.meanOfRows(x);
      x = f32.apply<SubOp>(x, mean);
    }
    Value variance = f32.meanOfRows(f32.apply<MulOp>(x, x));
    Value epsilon =
        makeSplat(f32.builder, f32.location, RankedTensorType::get({}, f32.builder.getF32Type()), norm.epsilon);
    scale = f32.builder.create<RsqrtOp>(f32.location, f32.apply<AddOp>(variance, epsilon));
    if (norm.isCentred)
      shift = f32.apply<MulOp>(mean, scale);
  }
};

/// The sum of a product's weights over K, [N]; of each times `factor` [K], where there is one.
Value sumOverK(F32Builder f32, MatmulOp product, Value factor = {}) {
  Value weights = f32.wide(product.getRhs());
  const int64_t axis = product.getTransposeB() ? 1 : 0;
  if (factor) {
    SmallVector<int64_t> shape{1, 1};
    shape[axis] = dimsOf(factor).back();
    weights = f32.apply<MulOp>(weights, reshapeTo(f32.builder, f32.wide(factor), shape));
  }
  return f32.reduce(weights, "sum", axis);
}

} // namespace

SmallVector<SmallVector<MatmulOp>> normedProducts(func::FuncOp function, const llvm::DenseSet<Value> &fixed) {
  llvm::MapVector<Operation *, SmallVector<MatmulOp>> readers;
  for (auto product : function.getOps<MatmulOp>())
    if (Operation *norm = normBehind(product.getLhs()))
      readers[norm].push_back(product);
  SmallVector<SmallVector<MatmulOp>> sets;
  for (auto &[op, products] : readers) {
    Norm norm(op);
    auto isFixed = [&](Value value) { return !value || (fixed.contains(value) && isBF16(value)); };
    bool takesAll = llvm::all_of(products, [&](MatmulOp product) {
      return !product.getTransposeA() && isFixed(product.getRhs()) && typeOf(product.getRhs()).getRank() == 2 &&
             typeOf(product.getRhs()).getElementType() == typeOf(norm.input).getElementType();
    });
    if (takesAll && isBF16(norm.input) && isFixed(norm.weight) && isFixed(norm.bias) && !fixed.contains(norm.input) &&
        isReadByAlone(op->getResult(0), products))
      sets.push_back(products);
  }
  return sets;
}

void applyNormBehind(ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> &fixed) {
  Operation *op = normBehind(products.front()->getOperand(0));
  SmallVector<Value> offsets; // beta W, of the weights as they are.
  if (Value bias = Norm(op).bias) {
    for (MatmulOp product : products) {
      OpBuilder builder(product);
      offsets.push_back(sumOverK({builder, product.getLoc()}, product, bias));
    }
    cast<LayerNormOp>(op).getBiasMutable().clear();
  }
  foldNormWeight(products, fixed);
  const Norm norm(op);
  OpBuilder atNorm(op);
  const Statistics rows({atNorm, op->getLoc()}, norm);
  for (auto [i, each] : llvm::enumerate(products)) {
    MatmulOp product = each;
    OpBuilder builder(product->getContext());
    builder.setInsertionPointAfter(product);
    F32Builder f32{builder, product.getLoc()};
    const SmallVector<int64_t> shape = F32Builder::rowsOf(product.getLhs());
    auto ofRows = [&](Value value) { return reshapeTo(builder, value, shape); };
    Value wide = f32.wide(product), sum = f32.apply<MulOp>(wide, ofRows(rows.scale));
    if (rows.shift)
      sum = f32.apply<SubOp>(sum, f32.apply<MulOp>(ofRows(rows.shift), sumOverK(f32, product)));
    if (!offsets.empty())
      sum = f32.apply<AddOp>(sum, offsets[i]);
    Value result = builder.create<CastOp>(product.getLoc(), product.getType(), sum);
    product.getResult().replaceAllUsesExcept(result, wide.getDefiningOp());
    OpBuilder before(product);
    product->setOperand(0, reshapeTo(before, norm.input, dimsOf(product.getLhs())));
  }
}

} // namespace kfuse::passes
