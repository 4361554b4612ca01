// Whole parts of transformers that newer opsets and ONNX Runtime write as one node: decomposed here, and
// recognised again by the passes as any other exporter's decomposition is.
#include "ir/import/onnx/attention/AttentionParts.h"
#include "ir/import/onnx/attention/Ops.h"

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
    return emit.reshape(rotated(node, x, cosines, sines, node.flag("interleaved")), dims);
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

/// `mask` with its last dimension as long as there are keys: what it does not reach is hidden.
Value reachingAll(Emitter &emit, Value mask, int64_t keys) {
  if (!mask || dimsOf(mask).empty())
    return mask;
  Ints shape(dimsOf(mask));
  int64_t missing = keys - shape.back();
  if (missing <= 0 || shape.back() == 1)
    return mask;
  shape.back() = missing;
  DType type = dtypeOf(mask.getType());
  double hidden = type == DType::Bool ? 0 : -std::numeric_limits<double>::infinity();
  return emit.concat({mask, emit.splat(hidden, type, shape)}, static_cast<int64_t>(shape.size()) - 1);
}

/// softmax(scale q k^T + mask) v.
Values attention(Node &node) {
  Emitter &emit = node.emit;
  AttentionParts parts{byHead(node, node.input(0), node.integer("q_num_heads", 0)),
                       byHead(node, node.input(1), node.integer("kv_num_heads", 0)),
                       byHead(node, node.input(2), node.integer("kv_num_heads", 0))};
  if (!parts.q || !parts.k || !parts.v)
    return Value();
  Value past;
  if (node.input(4) && node.input(5) && node.rank(4) == 4) {
    past = emit.reshape(emit.sizes(node.input(4), 2, 3), {});
    parts.k = emit.concat({node.input(4), parts.k}, 2);
    parts.v = emit.concat({node.input(5), parts.v}, 2);
  }
  if (!parts.k || !parts.v)
    return Value();
  parts.scale = node.real("scale", 1 / std::sqrt(static_cast<double>(dimsOf(parts.q)[3])));
  parts.softcap = node.real("softcap", 0);
  int64_t rows = dimsOf(parts.q)[2], keys = dimsOf(parts.k)[2];
  if (Value mask = reachingAll(emit, node.input(3), keys))
    (dtypeOf(mask.getType()) == DType::Bool ? parts.allowed : parts.added).push_back(mask);
  auto column = [&] { return emit.iota({1, keys}, 1); };
  Value length = node.input(6);
  if (length && node.rank(6) != 1)
    return node.fail("nonpad_kv_seqlen of shape " + toString(node.dims(6)) + " is no vector");
  if (length)
    length = emit.reshape(emit.cast(length, DType::I64), {node.dims(6)[0], 1, 1, 1});
  if (node.flag("is_causal")) { // The last row sees the last key that counts.
    Value row = emit.iota({rows, 1}, 0);
    if (length)
      row = emit.add(row, emit.add(length, static_cast<double>(-rows)));
    else if (past && node.dims(4)[2] > 0)
      row = emit.add(row, past);
    parts.allowed.push_back(emit.binary<LeOp>(column(), row));
  }
  if (length)
    parts.allowed.push_back(emit.binary<LtOp>(column(), length));
  parts.hidesRows = node.input(3) || length;
  AttentionResults results = attend(node, parts);
  // The scores are given at one of four points; here as the first or the last of them.
  int64_t point = node.integer("qk_matmul_output_mode", 0);
  return {node.rank(0) == 3 ? joinHeads(emit, results.y) : results.y, parts.k, parts.v,
          point == 0   ? results.scores
          : point == 3 ? results.weights
                       : Value()};
}

constexpr OnnxOp table[] = {
    {"Attention", 3, 7, attention,
     "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision"},
    {"RotaryEmbedding", 3, 4, rotaryEmbedding, "interleaved num_heads rotary_embedding_dim"},
    {"com.microsoft.RotaryEmbedding", 4, 4, microsoftRotaryEmbedding,
     "interleaved is_packed_batching num_heads rotary_embedding_dim scale"},
};

} // namespace

llvm::ArrayRef<OnnxOp> transformerOps() { return table; }

} // namespace kfuse::ir::onnx
