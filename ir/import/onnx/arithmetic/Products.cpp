// Matrix products.
#include "ir/import/onnx/arithmetic/Ops.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// NumPy's product: a vector is a row on the left and a column on the right, and its 1 is dropped again.
Value numpyMatmul(Node &node, Value a, Value b, bool transposeA, bool transposeB) {
  Emitter &emit = node.emit;
  if (dimsOf(a).empty() || dimsOf(b).empty())
    return node.fail("multiplies a scalar as a matrix");
  bool isRow = dimsOf(a).size() == 1, isColumn = dimsOf(b).size() == 1;
  if (isRow)
    a = emit.reshape(a, {1, dimsOf(a)[0]});
  if (isColumn)
    b = emit.reshape(b, {dimsOf(b)[0], 1});
  Value product = emit.matmul(a, b, transposeA && !isRow, transposeB && !isColumn);
  if (!product)
    return {};
  Ints shape(dimsOf(product));
  if (isColumn)
    shape.pop_back();
  if (isRow)
    shape.erase(shape.end() - (isColumn ? 1 : 2));
  return emit.reshape(product, shape);
}

Values matmul(Node &node) { return numpyMatmul(node, node.input(0), node.input(1), false, false); }

/// com.microsoft: alpha op(a) op(b).
Values fusedMatmul(Node &node) {
  if (node.flag("transBatchA") || node.flag("transBatchB"))
    return node.fail("transposes batch dimensions");
  Value product = numpyMatmul(node, node.input(0), node.input(1), node.flag("transA"), node.flag("transB"));
  return node.emit.mul(product, node.real("alpha", 1));
}

/// alpha op(a) op(b) + beta c.
Values gemm(Node &node) {
  Emitter &emit = node.emit;
  if (node.rank(0) != 2 || node.rank(1) != 2)
    return node.fail("multiplies " + toString(node.dims(0)) + " and " + toString(node.dims(1)) +
                     ", which are not both matrices");
  Value product = emit.matmul(node.input(0), node.input(1), node.flag("transA"), node.flag("transB"));
  product = emit.mul(product, node.real("alpha", 1));
  double beta = node.real("beta", 1);
  return node.input(2) && beta != 0 ? emit.add(product, emit.mul(node.input(2), beta)) : product;
}

/// com.microsoft: Gemm with an activation behind it, by name.
Values fusedGemm(Node &node) {
  Emitter &emit = node.emit;
  Value product = gemm(node).front();
  llvm::StringRef activation = node.text("activation", "");
  if (!product || activation.empty())
    return product;
  if (activation == "Relu")
    return emit.unary<ReluOp>(product);
  if (activation == "Sigmoid")
    return emit.unary<SigmoidOp>(product);
  if (activation == "Tanh")
    return emit.unary<TanhOp>(product);
  if (activation == "LeakyRelu") {
    Value negative = emit.mul(product, node.real("activation_alpha", 0.01));
    return emit.where(emit.binary<GtOp>(product, emit.scalarLike(product, 0)), product, negative);
  }
  return node.fail("activation '" + activation + "'; Relu, LeakyRelu, Sigmoid or Tanh");
}

constexpr OnnxOp table[] = {
    {"Gemm", 2, 3, gemm, "alpha beta transA transB"},
    {"MatMul", 2, 2, matmul},
    {"com.microsoft.FusedGemm", 2, 3, fusedGemm,
     "activation activation_alpha activation_beta activation_gamma alpha beta transA transB"},
    {"com.microsoft.FusedMatMul", 2, 2, fusedMatmul, "alpha transA transB transBatchA transBatchB"},
};

} // namespace

llvm::ArrayRef<OnnxOp> productOps() { return table; }

} // namespace kfuse::ir::onnx
