// The matrix product: blocked for whole tensors, a dot product for one element.
#include "ir/reference/OpTable.h"
#include "ir/reference/Product.h"

#include "ir/dialect/Kfuse.h"

#include "ir/reference/Parallel.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kfuse::reference {
namespace {

using Int = std::int64_t;

//===- Sums of products ----------------------------------------------------------------------===//

template <class Accumulator> Accumulator dot(const Number *left, const Number *right, Int depth) {
  Accumulator lanes[8] = {};
  for (Int i = 0; i < depth; ++i)
    lanes[i % 8] += static_cast<Accumulator>(left[i].real) * static_cast<Accumulator>(right[i].real);
  Accumulator sum = 0;
  for (Accumulator lane : lanes)
    sum += lane;
  return sum;
}

/// A number as tensor cores read an f32: cut behind 10 bits of mantissa.
Number cutToTf32(Number number) {
  constexpr std::uint32_t kept = 0xffffe000;
  return {.real = std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(number.real)) & kept)};
}

/// Products of 8-bit floats as Hopper's tensor cores sum them: 32 at a time and the sum so far are aligned to the
/// largest of them and cut behind 13 bits (DeepSeek-V3 Technical Report, 2024, section 3.3.2). What rounds op by
/// op is as wrong as that.
double float8Dot(const Number *left, const Number *right, Int depth) {
  constexpr Int step = 32;
  float sum = 0;
  for (Int begin = 0; begin < depth; begin += step) {
    const Int count = std::min(step, depth - begin);
    float products[step] = {}, largest = std::fabs(sum);
    for (Int i = 0; i < count; ++i) {
      products[i] = static_cast<float>(left[begin + i].real) * static_cast<float>(right[begin + i].real);
      largest = std::max(largest, std::fabs(products[i]));
    }
    if (!std::isfinite(largest) || largest == 0) {
      for (float product : products)
        sum += product;
      continue;
    }
    const float scale = std::ldexp(1.0F, 13 - std::ilogb(largest));
    std::int32_t cut = static_cast<std::int32_t>(sum * scale);
    for (float product : products)
      cut += static_cast<std::int32_t>(product * scale);
    sum = static_cast<float>(cut) / scale;
  }
  return sum;
}

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
  DType type;
  bool tf32;
  Shape shape, batchShape;
  Int m, n, k;
  MatmulOperand a, b;

  explicit MatmulGeometry(ir::MatmulOp op)
      : type(ir::dtypeOf(op.getType())), tf32(op.getTf32()), shape(ir::shapeOf(op.getResult())),
        batchShape(shape.begin(), shape.end() - 2), m(op.getM()), n(op.getN()), k(op.getK()),
        a(MatmulOperand::of(ir::shapeOf(op.getLhs()), batchShape, !op.getTransposeA())),
        b(MatmulOperand::of(ir::shapeOf(op.getRhs()), batchShape, op.getTransposeB())) {}
};

using Dot = double (*)(const Number *left, const Number *right, Int depth);
Dot dotOf(Mode mode, DType operands, bool tf32) {
  if (mode == Mode::Exact)
    return [](const Number *left, const Number *right, Int depth) { return dot<double>(left, right, depth); };
  if (isFloat8(operands))
    return float8Dot;
  if (tf32)
    return [](const Number *left, const Number *right, Int depth) -> double {
      std::vector<Number> cutLeft(depth), cutRight(depth);
      std::transform(left, left + depth, cutLeft.begin(), cutToTf32);
      std::transform(right, right + depth, cutRight.begin(), cutToTf32);
      return dot<float>(cutLeft.data(), cutRight.data(), depth);
    };
  return [](const Number *left, const Number *right, Int depth) -> double { return dot<float>(left, right, depth); };
}

/// Element by element, on one thread: whole products are computed otherwise. Remembers the row that it read last, of
/// which it is asked for pieces.
class MatmulTensor : public LazyTensor {
public:
  MatmulTensor(LazyTensor &a, LazyTensor &b, MatmulGeometry geometry, Dot dot)
      : LazyTensor(geometry.type, geometry.shape), a(a), b(b), geometry(std::move(geometry)), dot(dot),
        left(this->geometry.k) {}

private:
  void compute(Line line, Number *out) override {
    std::vector<Number> right(geometry.k);
    for (Int i = 0; i < line.count; ++i) {
      Int offset = line.first + i * line.stride, row = offset / geometry.n;
      if (row != known)
        readRow(known = row, left.data());
      readColumn(offset, right.data());
      out[i].real = dot(left.data(), right.data(), geometry.k);
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

  LazyTensor &a, &b;
  MatmulGeometry geometry;
  Dot dot;
  Int known = -1; ///< The row that `left` holds.
  std::vector<Number> left;
};

LazyTensor &matmul(mlir::Operation *op, Operands operands, LazyArena &arena) {
  MatmulGeometry geometry(mlir::cast<ir::MatmulOp>(op));
  const Dot dot = dotOf(arena.mode, operands[0]->type, geometry.tf32);
  return arena.make<MatmulTensor>(*operands[0], *operands[1], std::move(geometry), dot);
}

/// A whole product, element by element.
std::vector<Number> float8Product(const MatrixBatch &a, const MatrixBatch &b, const MatmulGeometry &geometry) {
  const auto rows = static_cast<Int>(a.offsets.size()) * geometry.m;
  std::vector<Number> all(static_cast<std::size_t>(rows * geometry.n));
  parallelFor(rows, 1, [&](Int row, Int) {
    const Number *fromA = a.data + a.offsets[row / geometry.m] + row % geometry.m * a.rowStride;
    const Number *fromB = b.data + b.offsets[row / geometry.m];
    std::vector<Number> left(geometry.k), right(geometry.k);
    for (Int k = 0; k < geometry.k; ++k)
      left[k] = fromA[k * a.columnStride];
    for (Int n = 0; n < geometry.n; ++n) {
      for (Int k = 0; k < geometry.k; ++k)
        right[k] = fromB[k * b.rowStride + n * b.columnStride];
      all[row * geometry.n + n].real = float8Dot(left.data(), right.data(), geometry.k);
    }
  });
  return all;
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
  if (mode != Mode::Exact && isFloat8(operands[0]->type))
    return float8Product(a, b, geometry);
  std::vector<Number> cut[2];
  if (mode != Mode::Exact && geometry.tf32)
    for (MatrixBatch *matrices : {&a, &b}) {
      std::vector<Number> &to = cut[matrices == &b];
      to.resize(elementCount(operands[matrices == &b]->shape));
      std::transform(matrices->data, matrices->data + to.size(), to.begin(), cutToTf32);
      matrices->data = to.data();
    }
  auto run = mode == Mode::Exact ? product<double> : product<float>;
  return run(a, b, geometry.m, geometry.n, geometry.k);
}

constexpr ReferenceOp rows[] = {{"matmul", matmul, wholeMatmul}};

} // namespace

llvm::ArrayRef<ReferenceOp> matmulOps() { return rows; }

} // namespace kfuse::reference
