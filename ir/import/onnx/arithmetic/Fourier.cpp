// DFT: a product with a constant matrix of sines and cosines, whose columns and rows hold real and imaginary parts side
// by side as ONNX does. Lengths of models are some hundred, where tensor cores make more of n^2 than of n log n.
#include "ir/import/onnx/arithmetic/Ops.h"

#include <array>
#include <cmath>
#include <numbers>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// 64 MB.
constexpr int64_t largestMatrix = int64_t{1} << 24;

/// The sine of an angle that counts whole turns, from 0 to less than 2; exact where it is 0, 1 or -1.
double sineOf(double turns) {
  const double quarters = 4 * turns;
  if (quarters == std::floor(quarters))
    return std::array{0.0, 1.0, 0.0, -1.0}[static_cast<size_t>(quarters) % 4];
  return std::sin(2 * std::numbers::pi * turns);
}

/// What is transformed to what.
struct Transform {
  int64_t length;   ///< Elements of the whole signal.
  int64_t from, to; ///< Elements that are read, of the signal or its spectrum, and results.
  int64_t parts;    ///< 2 where the operand is complex, 1 where it is real.
  bool isInverse;   ///< Divided by the length.
  bool isToReal;    ///< The inverse of a spectrum's first half, whose other half mirrors it.

  int64_t resultParts() const { return isToReal ? 1 : 2; }

  /// [from * parts, to * resultParts].
  HostTensor matrix() const {
    const int64_t columns = to * resultParts();
    std::vector<double> values(from * parts * columns);
    for (int64_t i = 0; i < from; ++i)
      for (int64_t o = 0; o < to; ++o) {
        const double turns = static_cast<double>(i * o % length) / static_cast<double>(length);
        double scale = isInverse ? 1 / static_cast<double>(length) : 1;
        if (isToReal && i > 0 && 2 * i != length)
          scale *= 2;
        const double cosine = scale * sineOf(turns + 0.25), sine = (isInverse ? scale : -scale) * sineOf(turns);
        double *real = &values[i * parts * columns + o * resultParts()], *imaginary = real + columns;
        real[0] = cosine;
        if (!isToReal)
          real[1] = sine;
        if (parts == 2) {
          imaginary[0] = -sine;
          if (!isToReal)
            imaginary[1] = cosine;
        }
      }
    return reference::tensorOf(DType::F32, {from * parts, columns}, values);
  }
};

/// The dimension that is transformed; 0, and failed, where the node does not say.
int64_t transformedDim(Node &node) {
  const int64_t rank = node.rank(0);
  if (node.has("axis")) // Before opset 20.
    return node.normalised(node.integer("axis", 1), rank);
  if (node.input(2)) {
    std::optional<Ints> axis = node.constantIntegers(2, "axis");
    if (axis && axis->size() == 1)
      return node.normalised(axis->front(), rank);
    node.fail("axis (input 2) is not one number");
    return 0;
  }
  if (rank != 3) // It is 1 before opset 20, and the last but one since.
    node.fail("does not say which dimension of " + toString(node.dims(0)) + " it transforms");
  return 1;
}

Values dft(Node &node) {
  Emitter &emit = node.emit;
  const int64_t rank = node.rank(0), dim = transformedDim(node);
  if (node.failed())
    return Value();
  llvm::ArrayRef<int64_t> dims = node.dims(0);
  if (rank < 2 || dim == rank - 1 || dims.back() < 1 || dims.back() > 2 || !isFloat(node.type(0)))
    return node.fail("transforms dimension " + llvm::Twine(dim) + " of a tensor of shape " + toString(dims) +
                     "; its last dimension holds the parts of floats: 1 if they are real, 2 if complex");
  const bool isInverse = node.flag("inverse"), isOneSided = node.flag("onesided");
  int64_t length = isInverse && isOneSided ? 2 * (dims[dim] - 1) : dims[dim];
  if (node.input(1)) {
    std::optional<Ints> given = node.constantIntegers(1, "dft_length");
    if (!given || given->size() != 1)
      return node.fail("dft_length (input 1) is not one number");
    length = given->front();
  }
  if (length < 1 || length > largestMatrix || elementsIn(dims) == 0)
    return node.fail("transforms " + llvm::Twine(length) + " elements of a tensor of shape " + toString(dims));
  // Elements that are missing are zeros, which add nothing.
  const int64_t half = length / 2 + 1, read = isInverse && isOneSided ? half : length;
  const Transform transform{.length = length,
                            .from = std::min(read, dims[dim]),
                            .to = isOneSided && !isInverse ? half : length,
                            .parts = dims.back(),
                            .isInverse = isInverse,
                            .isToReal = isInverse && isOneSided};
  if (transform.from * transform.parts > largestMatrix / (transform.to * transform.resultParts()))
    return node.fail("transforms " + llvm::Twine(transform.from) + " elements to " + llvm::Twine(transform.to) +
                     ", by a matrix of more than 2^24 elements");

  Ints toEnd = counted(rank), fromEnd = counted(rank);
  toEnd.erase(toEnd.begin() + dim);
  toEnd.insert(toEnd.end() - 1, dim);
  for (auto [place, from] : llvm::enumerate(toEnd))
    fromEnd[from] = static_cast<int64_t>(place);
  Value x = emit.slice(emit.cast(node.input(0), DType::F32), dim, 0, transform.from);
  x = emit.transpose(x, toEnd);
  if (!x)
    return Value();
  Ints rows(dimsOf(x).drop_back(2)), result(rows);
  rows.push_back(transform.from * transform.parts);
  result.append({transform.to, transform.resultParts()});
  if (rows.size() == 1)
    rows.insert(rows.begin(), 1);
  Value product = emit.matmul(emit.reshape(x, rows), emit.constant(transform.matrix()));
  return emit.cast(emit.transpose(emit.reshape(product, result), fromEnd), node.type(0));
}

constexpr OnnxOp table[] = {
    {"DFT", 1, 3, dft, "axis inverse onesided"},
};

} // namespace

llvm::ArrayRef<OnnxOp> fourierOps() { return table; }

} // namespace kfuse::ir::onnx
