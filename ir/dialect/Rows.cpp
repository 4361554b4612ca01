// Row reductions and norms.
#include "ir/IndexMath.h"
#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace kfuse::ir {
namespace {

/// The element of operand `i` in the row of `index`, at column `k`.
Scalar inRow(ScalarBuilder &builder, unsigned i, ArrayRef<AffineExpr> index, AffineExpr k) {
  SmallVector<AffineExpr> where(index);
  where.back() = k;
  return builder.operand(i, where);
}

LogicalResult inferSameAsFirst(StringRef name, std::optional<Location> location, ValueRange operands,
                               SmallVectorImpl<Type> &types) {
  if (operands.empty() || dimsOf(operands[0]).empty())
    return emitOptionalError(location, "kfuse.", name, ": needs an operand of at least one dimension, got a scalar");
  types.push_back(operands[0].getType());
  return success();
}

LogicalResult verifyRowVector(Operation *op, Value row, Value vector, StringRef what) {
  if (!vector)
    return success();
  if (dimsOf(vector).size() != 1 || dimsOf(vector)[0] != dimsOf(row).back())
    return op->emitOpError() << what << " has the shape [" << dimsOf(vector) << "], rows have " << dimsOf(row).back()
                             << " elements";
  if (getElementTypeOrSelf(vector) != getElementTypeOrSelf(row))
    return op->emitOpError() << what << " holds " << getElementTypeOrSelf(vector) << ", the operand "
                             << getElementTypeOrSelf(row);
  return success();
}

} // namespace

//===- Softmax -------------------------------------------------------------------------------===//

int64_t SoftmaxOp::getFlops() { return 4 * getType().getNumElements(); }

LogicalResult SoftmaxOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                          DictionaryAttr, OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  return inferSameAsFirst("softmax", location, operands, types);
}

Scalar SoftmaxOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  int64_t size = dimsOf(getOperand()).back();
  auto x = [&](AffineExpr k) { return inRow(builder, 0, index, k); };
  Scalar max = builder.reduce("max", size, x);
  auto exponential = [&](AffineExpr k) -> Scalar {
    Scalar value = x(k);
    if (!max || !value)
      return {};
    return builder.apply("exp", {builder.apply("sub", {value, max}, DType::F32)}, DType::F32);
  };
  Scalar sum = builder.reduce("sum", size, exponential), numerator = exponential(index.back());
  if (!sum || !numerator)
    return {};
  return builder.apply("div", {numerator, sum}, DType::F32);
}

//===- Norms ---------------------------------------------------------------------------------===//

int64_t LayerNormOp::getFlops() { return 6 * getType().getNumElements(); }

LogicalResult LayerNormOp::verify() {
  if (getBias() && !getWeight())
    return emitOpError("has a bias but no weight");
  if (failed(verifyRowVector(*this, getOperand(), getWeight(), "weight")))
    return failure();
  return verifyRowVector(*this, getOperand(), getBias(), "bias");
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                            DictionaryAttr, OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type> &types) {
  return inferSameAsFirst("layer_norm", location, operands, types);
}

Scalar LayerNormOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  int64_t size = dimsOf(getOperand()).back();
  auto apply = [&](StringRef function, Scalar a, Scalar b) { return builder.apply(function, {a, b}, DType::F32); };
  auto f32 = [&](double value) { return builder.constant(value, DType::F32); };

  Scalar sum = builder.reduce("sum", size, [&](AffineExpr k) { return inRow(builder, 0, index, k); });
  if (!sum)
    return {};
  Scalar mean = apply("mul", sum, f32(1.0 / size));
  auto centred = [&](AffineExpr k) -> Scalar {
    Scalar x = inRow(builder, 0, index, k);
    return x ? apply("sub", x, mean) : x;
  };
  // Two passes over the row: the one-pass E[x^2] - mean^2 cancels when |mean| >> deviation.
  Scalar squares = builder.reduce("sum", size, [&](AffineExpr k) -> Scalar {
    Scalar d = centred(k);
    return d ? apply("mul", d, d) : d;
  });
  Scalar value = centred(index.back());
  if (!squares || !value)
    return {};
  Scalar variance = apply("mul", squares, f32(1.0 / size));
  Scalar scale = builder.apply("rsqrt", {apply("add", variance, f32(getEpsilon().convertToFloat()))}, DType::F32);
  value = apply("mul", value, scale);
  for (unsigned i = 1; i < getNumOperands(); ++i) {
    Scalar vector = builder.operand(i, index.take_back(1));
    if (!vector)
      return {};
    value = apply(i == 1 ? "mul" : "add", value, vector);
  }
  return value;
}

int64_t RmsNormOp::getFlops() { return 4 * getType().getNumElements(); }

LogicalResult RmsNormOp::verify() { return verifyRowVector(*this, getOperand(), getWeight(), "weight"); }

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                          DictionaryAttr, OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  return inferSameAsFirst("rms_norm", location, operands, types);
}

Scalar RmsNormOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  int64_t size = dimsOf(getOperand()).back();
  auto apply = [&](StringRef function, Scalar a, Scalar b) { return builder.apply(function, {a, b}, DType::F32); };
  auto f32 = [&](double value) { return builder.constant(value, DType::F32); };

  Scalar squares = builder.reduce("sum", size, [&](AffineExpr k) -> Scalar {
    Scalar x = inRow(builder, 0, index, k);
    return x ? apply("mul", x, x) : x;
  });
  Scalar x = builder.operand(0, index);
  if (!squares || !x)
    return {};
  Scalar mean = apply("mul", squares, f32(1.0 / size));
  Scalar scale = builder.apply("rsqrt", {apply("add", mean, f32(getEpsilon().convertToFloat()))}, DType::F32);
  Scalar value = apply("mul", x, scale);
  if (!getWeight())
    return value;
  Scalar weight = builder.operand(1, index.take_back(1));
  return weight ? apply("mul", value, weight) : weight;
}

//===- Reduce --------------------------------------------------------------------------------===//

int64_t ReduceOp::getFlops() { return cast<RankedTensorType>(getOperand().getType()).getNumElements(); }

LogicalResult ReduceOp::verify() {
  if (!llvm::is_contained({"sum", "max", "min", "mean"}, getFunction()))
    return emitOpError("reduces by sum, max, min or mean, not '") << getFunction() << "'";
  if (getFunction() == "mean" && !getType().getElementType().isF32() && !isFloat(dtypeOf(getType())))
    return emitOpError("takes the mean of floats, not of ") << getType().getElementType();
  return success();
}

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                         SmallVectorImpl<Type> &types) {
  Adaptor adaptor(operands, attributes, properties, regions);
  ArrayRef<int64_t> dims = dimsOf(operands[0]), axes = adaptor.getAxes();
  SmallVector<int64_t> kept;
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis < 0 || axis >= static_cast<int64_t>(dims.size()) || (i > 0 && axis <= axes[i - 1]))
      return emitOptionalError(location, "kfuse.reduce: axes [", axes, "] must ascend within the ", dims.size(),
                               " dimensions");
  for (auto [i, size] : llvm::enumerate(dims))
    if (!llvm::is_contained(axes, static_cast<int64_t>(i)))
      kept.push_back(size);
  types.push_back(RankedTensorType::get(kept, getElementTypeOrSelf(operands[0])));
  return success();
}

Scalar ReduceOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  ArrayRef<int64_t> dims = dimsOf(getOperand()), axes = getAxes();
  SmallVector<int64_t> reduced;
  for (int64_t axis : axes)
    reduced.push_back(dims[axis]);
  int64_t size = elementsIn(reduced);
  bool isMean = getFunction() == "mean";

  Scalar result = builder.reduce(isMean ? "sum" : getFunction(), size, [&](AffineExpr k) {
    SmallVector<AffineExpr> along = delinearise(k, reduced), where(dims.size());
    unsigned kept = 0, taken = 0;
    for (size_t i = 0; i < dims.size(); ++i)
      where[i] = llvm::is_contained(axes, static_cast<int64_t>(i)) ? along[taken++] : index[kept++];
    return builder.operand(0, where);
  });
  if (!isMean || !result)
    return result;
  return builder.apply("mul", {result, builder.constant(1.0 / size, DType::F32)}, DType::F32);
}

} // namespace kfuse::ir
