// Whole parts of transformers that newer opsets and ONNX Runtime write as one node: decomposed here, and
// recognised again by the passes as any other exporter's decomposition is.
#include "ir/import/onnx/Ops.h"

#include <cmath>
#include <limits>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Rotates the first 2 * R elements of each row of x: [B, S, heads, D] (3 dimensions in the file) or
/// [B, heads, S, D] (4), by tables of [B, S, R] that are given so or looked up in [positions, R].
struct Rotary {
  Node &node;
  Value positions; ///< [B, S], or null when the tables are [B, S, R] already.
  Value cos, sin;
  std::int64_t headSize; ///< D, where the file has 3 dimensions.

  Value table(Value source, int64_t headAxis) const {
    Emitter &emit = node.emit;
    Value rows = positions ? emit.gather(source, positions, 0) : source;
    if (!rows || dimsOf(rows).size() != 3)
      return node.fail("its tables and positions make no [batch, sequence, angles]");
    Ints shape(dimsOf(rows));
    shape.insert(shape.begin() + headAxis, 1);
    return emit.cast(emit.reshape(rows, shape), node.type(0));
  }

  Values apply() const {
    Emitter &emit = node.emit;
    Ints dims(node.dims(0));
    bool isPacked = dims.size() == 3;
    if (isPacked && (headSize <= 0 || dims[2] % headSize != 0))
      return node.fail("splits " + llvm::Twine(dims[2]) + " elements into heads of " + llvm::Twine(headSize) +
                       "; is num_heads right?");
    if (!isPacked && dims.size() != 4)
      return node.fail("rotates " + toString(dims) + ", which has neither 3 nor 4 dimensions");
    Value x = isPacked ? emit.reshape(node.input(0), {dims[0], dims[1], dims[2] / headSize, headSize}) : node.input(0);
    Value cosines = table(cos, isPacked ? 2 : 1), sines = table(sin, isPacked ? 2 : 1);
    if (!x || !cosines || !sines)
      return Value();
    int64_t size = dimsOf(x).back(), rotated = 2 * dimsOf(cosines).back();
    if (rotated > size)
      return node.fail("rotates " + llvm::Twine(rotated) + " elements of heads of " + llvm::Twine(size));
    bool interleaved = node.flag("interleaved");
    Value result = emit.rotary(emit.slice(x, 3, 0, rotated), cosines, sines, interleaved);
    if (rotated < size)
      result = emit.concat({result, emit.slice(x, 3, rotated, size - rotated)}, 3);
    return emit.reshape(result, dims);
  }
};

int64_t headSizeOf(Node &node, int64_t heads) { return heads > 0 ? node.dims(0).back() / heads : 0; }

Values rotaryEmbedding(Node &node) {
  if (node.rank(0) < 3)
    return node.fail("rotates " + toString(node.dims(0)));
  int64_t headSize = headSizeOf(node, node.integer("num_heads", 0));
  return Rotary{node, node.input(3), node.input(1), node.input(2), headSize}.apply();
}

/// com.microsoft: positions come second, as [B, S] or as the position of the first element, [1].
Values microsoftRotaryEmbedding(Node &node) {
  Emitter &emit = node.emit;
  if (node.rank(0) < 3 || node.rank(2) != 2)
    return node.fail("rotates " + toString(node.dims(0)) + " by tables of " + toString(node.dims(2)));
  if (node.flag("is_packed_batching") || node.real("scale", 1) != 1)
    return node.fail("is_packed_batching or a scale other than 1 is set");
  int64_t heads = node.integer("num_heads", 0);
  int64_t headSize = heads > 0 ? headSizeOf(node, heads) : 2 * node.dims(2)[1];
  Value positions = node.input(1);
  if (node.rank(1) == 1) {
    Ints shape{1, node.dims(0)[node.rank(0) - 2]};
    positions = emit.add(emit.iota(shape, 1, node.type(1)), positions);
  }
  return Rotary{node, positions, node.input(2), node.input(3), headSize}.apply();
}

/// [B, S, heads D] as [B, heads, S, D]; four dimensions are so already.
Value byHead(Node &node, Value x, int64_t heads) {
  Emitter &emit = node.emit;
  Ints dims(dimsOf(x));
  if (dims.size() == 4)
    return x;
  if (dims.size() != 3 || heads < 1 || dims[2] % heads != 0)
    return node.fail("splits " + toString(dims) + " into " + llvm::Twine(heads) + " heads");
  return emit.transpose(emit.reshape(x, {dims[0], dims[1], heads, dims[2] / heads}), {0, 2, 1, 3});
}

/// Each head of [B, H, S, D] `times` times, neighbours alike.
Value repeatHeads(Emitter &emit, Value x, int64_t times) {
  if (!x || times == 1)
    return x;
  llvm::ArrayRef<int64_t> dims = dimsOf(x);
  Value copies = emit.broadcast(emit.reshape(x, {dims[0], dims[1], 1, dims[2], dims[3]}),
                                {dims[0], dims[1], times, dims[2], dims[3]});
  return emit.reshape(copies, {dims[0], dims[1] * times, dims[2], dims[3]});
}

/// Scores where attention may look, else -infinity.
Value masked(Node &node, Value scores, int64_t past) {
  Emitter &emit = node.emit;
  Value nothing = emit.scalarLike(scores, -std::numeric_limits<double>::infinity());
  if (Value mask = node.input(3))
    scores = dtypeOf(mask.getType()) == DType::Bool ? emit.where(mask, scores, nothing) : emit.add(scores, mask);
  if (!scores || !node.flag("is_causal"))
    return scores;
  int64_t rows = dimsOf(scores)[2], columns = dimsOf(scores)[3];
  Value row = emit.add(emit.iota({rows, 1}, 0), static_cast<double>(past)), column = emit.iota({1, columns}, 1);
  return emit.where(emit.binary<LeOp>(column, row), scores, nothing);
}

/// softmax(scale q k^T + mask) v.
Values attention(Node &node) {
  Emitter &emit = node.emit;
  Value q = byHead(node, node.input(0), node.integer("q_num_heads", 0));
  Value k = byHead(node, node.input(1), node.integer("kv_num_heads", 0));
  Value v = byHead(node, node.input(2), node.integer("kv_num_heads", 0));
  if (!q || !k || !v)
    return Value();
  int64_t past = 0;
  if (node.input(4) && node.input(5) && node.rank(4) == 4) {
    past = node.dims(4)[2];
    k = emit.concat({node.input(4), k}, 2);
    v = emit.concat({node.input(5), v}, 2);
  }
  if (!k || !v)
    return Value();
  int64_t heads = dimsOf(q)[1], kvHeads = dimsOf(k)[1];
  if (kvHeads < 1 || heads % kvHeads != 0 || dimsOf(v)[1] != kvHeads)
    return node.fail(llvm::Twine(heads) + " query heads do not share " + llvm::Twine(kvHeads) + " key and " +
                     llvm::Twine(dimsOf(v)[1]) + " value heads");

  double scale = node.real("scale", 1 / std::sqrt(static_cast<double>(dimsOf(q)[3])));
  Value raw = emit.mul(emit.matmul(q, repeatHeads(emit, k, heads / kvHeads), false, true), scale), scores = raw;
  if (double cap = node.real("softcap", 0); cap != 0)
    scores = emit.mul(emit.unary<TanhOp>(emit.mul(scores, 1 / cap)), cap);
  Value weights = emit.unary<SoftmaxOp>(masked(node, scores, past));
  if (node.input(3)) // A row that the mask hides altogether attends to nothing.
    weights = emit.where(emit.unary<IsNanOp>(weights), emit.scalarLike(weights, 0), weights);
  Value y = emit.matmul(weights, repeatHeads(emit, v, heads / kvHeads));
  if (y && node.rank(0) == 3)
    y = emit.reshape(emit.transpose(y, {0, 2, 1, 3}), {dimsOf(q)[0], dimsOf(q)[2], heads * dimsOf(v)[3]});
  // The scores are given at one of four points; here as the first or the last of them.
  int64_t point = node.integer("qk_matmul_output_mode", 0);
  return {y, k, v, point == 0 ? raw : point == 3 ? weights : Value()};
}

constexpr OnnxOp table[] = {
    {"Attention", 3, 6, attention,
     "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision"},
    {"RotaryEmbedding", 3, 4, rotaryEmbedding, "interleaved num_heads rotary_embedding_dim"},
    {"com.microsoft.RotaryEmbedding", 4, 4, microsoftRotaryEmbedding,
     "interleaved is_packed_batching num_heads rotary_embedding_dim scale"},
};

} // namespace

llvm::ArrayRef<OnnxOp> transformerOps() { return table; }

} // namespace kfuse::ir::onnx
