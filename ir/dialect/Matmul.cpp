// The matrix product.
#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace kfuse::ir {

int64_t MatmulOp::getM() { return getType().getShape().take_back(2)[0]; }
int64_t MatmulOp::getN() { return getType().getShape().back(); }
int64_t MatmulOp::getK() { return dimsOf(getLhs()).take_back(2)[getTransposeA() ? 0 : 1]; }
int64_t MatmulOp::getFlops() { return 2 * getType().getNumElements() * getK(); }

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                         SmallVectorImpl<Type> &types) {
  Adaptor adaptor(operands, attributes, properties, regions);
  ArrayRef<int64_t> a = dimsOf(operands[0]), b = dimsOf(operands[1]);
  if (a.size() < 2 || b.size() < 2)
    return emitOptionalError(location, "kfuse.matmul: needs two matrices, got [", a, "] and [", b, "]");
  bool areFloat8 = llvm::all_of(operands, [](Value operand) { return isFloat8(dtypeOf(operand.getType())); });
  if (!areFloat8 && getElementTypeOrSelf(operands[0]) != getElementTypeOrSelf(operands[1]))
    return emitOptionalError(location, "kfuse.matmul: operands hold ", getElementTypeOrSelf(operands[0]), " and ",
                             getElementTypeOrSelf(operands[1]), "; cast one of them");
  bool transposeA = adaptor.getTransposeA(), transposeB = adaptor.getTransposeB();
  int64_t m = a[a.size() - (transposeA ? 1 : 2)], k = a[a.size() - (transposeA ? 2 : 1)];
  int64_t n = b[b.size() - (transposeB ? 2 : 1)], otherK = b[b.size() - (transposeB ? 1 : 2)];
  if (k != otherK)
    return emitOptionalError(location, "kfuse.matmul: K differs: ", k, " in [", a, "], ", otherK, " in [", b, "]");
  SmallVector<int64_t> shape;
  if (!detail::broadcastShapes(a.drop_back(2), b.drop_back(2), shape))
    return emitOptionalError(location, "kfuse.matmul: batch dimensions of [", a, "] and [", b, "] do not broadcast");
  shape.append({m, n});
  Type element = areFloat8 ? Float32Type::get(operands[0].getContext()) : getElementTypeOrSelf(operands[0]);
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

LogicalResult MatmulOp::verify() {
  if (getTf32() && !getElementTypeOrSelf(getLhs()).isF32())
    return emitOpError("has tf32, which is for operands of f32, and operands of ") << getElementTypeOrSelf(getLhs());
  return success();
}

Scalar MatmulOp::scalarise(ScalarBuilder &builder, ArrayRef<AffineExpr> index) {
  auto at = [&](unsigned operand, AffineExpr row, AffineExpr column, bool transposed) {
    ArrayRef<int64_t> batch = dimsOf(getOperation()->getOperand(operand)).drop_back(2);
    SmallVector<AffineExpr> where = detail::broadcastIndex(batch, index.drop_back(2), getContext());
    if (transposed)
      std::swap(row, column);
    where.append({row, column});
    return builder.operand(operand, where);
  };
  AffineExpr m = index.take_back(2)[0], n = index.back();
  return builder.contract(
      getK(), [&](AffineExpr k) { return at(0, m, k, getTransposeA()); },
      [&](AffineExpr k) { return at(1, k, n, getTransposeB()); }, getTf32() ? "tf32" : "");
}

} // namespace kfuse::ir
