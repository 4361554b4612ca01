// The matrix product: blocked for whole tensors, a dot product for one element.
#include "ir/reference/OpTable.h"
#include "ir/reference/Product.h"

#include "ir/dialect/Kfuse.h"

namespace kfuse::reference {
namespace {

using Int = std::int64_t;

/// An operand's matrices: where each one that a batch index of the result reads begins, and how it
/// is walked along M or N (its free dimension) and along K.
struct MatmulOperand {
  StridedMap batch;
  Int freeStride, depthStride;

  /// `isTransposed`: K is not where it is by default, the last dimension of a, the first of b.
  static MatmulOperand of(const Shape &shape, const Shape &resultBatch, bool depthIsLast) {
    Shape own(shape.begin(), shape.end() - 2), strides = broadcastStrides(own, resultBatch);
    Int rows = shape[shape.size() - 2], columns = shape.back();
    for (Int &stride : strides)
      stride *= rows * columns;
    Int free = depthIsLast ? columns : 1, depth = depthIsLast ? 1 : columns;
    return {StridedMap(resultBatch, strides), free, depth};
  }
};

/// What a product's operands and result look like, read off the op.
struct MatmulGeometry {
  Shape shape, batchShape;
  Int m, n, k;
  MatmulOperand a, b;

  explicit MatmulGeometry(ir::MatmulOp op)
      : shape(ir::shapeOf(op.getResult())), batchShape(shape.begin(), shape.end() - 2), m(op.getM()), n(op.getN()),
        k(op.getK()), a(MatmulOperand::of(ir::shapeOf(op.getLhs()), batchShape, !op.getTransposeA())),
        b(MatmulOperand::of(ir::shapeOf(op.getRhs()), batchShape, op.getTransposeB())) {}
};

template <class Accumulator> class MatmulTensor : public LazyTensor {
public:
  MatmulTensor(LazyTensor &a, LazyTensor &b, MatmulGeometry geometry)
      : LazyTensor(a.type, geometry.shape), a(a), b(b), geometry(std::move(geometry)) {}

private:
  void compute(Line line, Number *out) override {
    std::vector<Number> left(geometry.k), right(geometry.k);
    Int known = -1;
    for (Int i = 0; i < line.count; ++i) {
      Int offset = line.first + i * line.stride, row = offset / geometry.n;
      if (row != known)
        readRow(known = row, left.data());
      readColumn(offset, right.data());
      out[i].real = dot(left.data(), right.data());
    }
  }

  void readRow(Int row, Number *out) {
    Int first = geometry.a.batch(row / geometry.m) + row % geometry.m * geometry.a.freeStride;
    a.read({first, geometry.a.depthStride, geometry.k}, out);
  }
  void readColumn(Int offset, Number *out) {
    Int first = geometry.b.batch(offset / geometry.n / geometry.m) + offset % geometry.n * geometry.b.freeStride;
    b.read({first, geometry.b.depthStride, geometry.k}, out);
  }

  Accumulator dot(const Number *left, const Number *right) const {
    Accumulator lanes[8] = {};
    for (Int i = 0; i < geometry.k; ++i)
      lanes[i % 8] += static_cast<Accumulator>(left[i].real) * static_cast<Accumulator>(right[i].real);
    Accumulator sum = 0;
    for (Accumulator lane : lanes)
      sum += lane;
    return sum;
  }

  LazyTensor &a, &b;
  MatmulGeometry geometry;
};

LazyTensor &matmul(mlir::Operation *op, Operands operands, LazyArena &arena) {
  MatmulGeometry geometry(mlir::cast<ir::MatmulOp>(op));
  if (arena.mode == Mode::Exact)
    return arena.make<MatmulTensor<double>>(*operands[0], *operands[1], std::move(geometry));
  return arena.make<MatmulTensor<float>>(*operands[0], *operands[1], std::move(geometry));
}

std::vector<Number> wholeMatmul(mlir::Operation *op, Operands operands, Mode mode) {
  MatmulGeometry geometry(mlir::cast<ir::MatmulOp>(op));
  auto all = [](LazyTensor *operand) { return operand->stored({0, 1, elementCount(operand->shape)}); };
  MatrixBatch a{all(operands[0]), {}, geometry.a.freeStride, geometry.a.depthStride};
  MatrixBatch b{all(operands[1]), {}, geometry.b.depthStride, geometry.b.freeStride};
  for (Int i = 0; i < elementCount(geometry.batchShape); ++i) {
    a.offsets.push_back(geometry.a.batch(i));
    b.offsets.push_back(geometry.b.batch(i));
  }
  auto run = mode == Mode::Exact ? product<double> : product<float>;
  return run(a, b, geometry.m, geometry.n, geometry.k);
}

constexpr ReferenceOp rows[] = {{"matmul", matmul, wholeMatmul}};

} // namespace

llvm::ArrayRef<ReferenceOp> matmulOps() { return rows; }

} // namespace kfuse::reference
