// com.microsoft.Attention and com.microsoft.MultiHeadAttention, which ONNX Runtime's transformer optimiser writes.
#include "ir/import/onnx/attention/AttentionParts.h"
#include "ir/import/onnx/attention/Ops.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// ONNX Runtime adds a large number to scores that a mask hides, and does not leave them out: a row that is hidden
/// altogether is as if nothing were.
double filterValue(Node &node) { return node.real("mask_filter_value", -10000); }

/// What to add to scores: 0 where a mask, which broadcasts to them, is not 0.
Value biasOf(Node &node, Value mask, DType type) {
  Emitter &emit = node.emit;
  return emit.where(emit.cast(mask, DType::Bool), emit.splat(0, type), emit.splat(filterValue(node), type));
}

/// The bias that a mask in one of its forms means: [B] or [B] twice (ends, then starts of what counts), [B, keys],
/// [B, rows, keys], or [B, 1, most, most], of which the rows after `past` are this step's.
Value maskBias(Node &node, Value mask, llvm::ArrayRef<int64_t> scores, DType type) {
  Emitter &emit = node.emit;
  Ints dims(dimsOf(mask));
  int64_t batch = scores[0], rows = scores[2], keys = scores[3];
  if (dims.size() == 1 && (dims[0] == batch || dims[0] == 2 * batch)) {
    Value column = emit.iota({1, 1, 1, keys}, 3, dtypeOf(mask.getType()));
    auto bound = [&](int64_t first) { return emit.reshape(emit.slice(mask, 0, first, batch), {batch, 1, 1, 1}); };
    Value counts = emit.binary<LtOp>(column, bound(0));
    if (dims[0] == 2 * batch)
      counts = emit.binary<AndOp>(counts, emit.binary<GeOp>(column, bound(batch)));
    return biasOf(node, counts, type);
  }
  if (dims.size() == 2 && (dims[0] == batch || dims[0] == 1) && dims[1] == keys)
    return biasOf(node, emit.reshape(mask, {dims[0], 1, 1, keys}), type);
  if (dims.size() == 3 && (dims[0] == batch || dims[0] == 1) && dims[1] == rows && dims[2] == keys)
    return biasOf(node, emit.reshape(mask, {dims[0], 1, rows, keys}), type);
  if (dims.size() == 4 && dims[2] >= keys && dims[3] >= keys)
    return biasOf(node, emit.slice(emit.slice(mask, 2, keys - rows, rows), 3, 0, keys), type);
  return node.fail("a mask of shape " + toString(dims) + " for scores of shape " + toString(scores) +
                   "; kfuse knows [batch], [2 batch], [batch, keys], [batch, rows, keys] and [batch, 1, most, most]");
}

/// Masks and biases of scores, and causality where the attribute asks for it.
bool addMasks(Node &node, AttentionParts &parts, Value mask, Value bias) {
  Emitter &emit = node.emit;
  if (!parts.q || !parts.k || dimsOf(parts.q).size() != 4 || dimsOf(parts.k).size() != 4)
    return !node.failed();
  DType type = dtypeOf(parts.q.getType());
  Ints scores{dimsOf(parts.q)[0], dimsOf(parts.q)[1], dimsOf(parts.q)[2], dimsOf(parts.k)[2]};
  if (mask)
    parts.added.push_back(maskBias(node, mask, scores, type));
  if (bias)
    parts.added.push_back(bias);
  if (node.flag("unidirectional") && scores[2] > 1) {
    Value row = emit.add(emit.iota({scores[2], 1}, 0), static_cast<double>(scores[3] - scores[2]));
    parts.allowed.push_back(emit.binary<LeOp>(emit.iota({1, scores[3]}, 1), row));
  }
  return !node.failed();
}

/// One of the `index`-th of packed [B, S, heads, count, D], by head.
Value unpacked(Node &node, Value x, int64_t index) {
  Emitter &emit = node.emit;
  Ints dims(dimsOf(x));
  Value one = emit.reshape(emit.slice(x, 3, index, 1), {dims[0], dims[1], dims[2], dims[4]});
  return emit.transpose(one, {0, 2, 1, 3});
}

/// The operand with its share of a bias of all, by head.
Value projected(Node &node, Value x, Value bias, int64_t first, int64_t heads) {
  Emitter &emit = node.emit;
  if (x && bias && dimsOf(x).size() == 3)
    x = emit.add(x, emit.slice(bias, 0, first, dimsOf(x)[2]));
  return byHead(node, x, heads);
}

Values multiHeadAttention(Node &node) {
  Emitter &emit = node.emit;
  int64_t heads = node.integer("num_heads", 0);
  Value query = node.input(0), key = node.input(1), value = node.input(2), bias = node.input(3);
  if (node.input(8) || node.input(9))
    return node.fail("past_sequence_length or cache_indirection is given, as for beam search inside of the model; "
                     "export the decoder alone");
  AttentionParts parts;
  auto packs = [&](Value x, int64_t count) { return x && dimsOf(x).size() == 5 && dimsOf(x)[3] == count; };
  if (bias && dimsOf(bias).size() != 1)
    return node.fail("a bias of shape " + toString(dimsOf(bias)) + " is no vector");
  if (bias && (packs(query, 3) || packs(key, 2)))
    return node.fail("a bias beside packed operands");
  if (packs(query, 3) && !key && !value) {
    parts = {unpacked(node, query, 0), unpacked(node, query, 1), unpacked(node, query, 2)};
  } else if (dimsOf(query).size() != 3 || !key) {
    return node.fail("a query of shape " + toString(dimsOf(query)) + (key ? "" : " without a key"));
  } else {
    int64_t width = dimsOf(query)[2];
    parts.q = projected(node, query, bias, 0, heads);
    parts.k = packs(key, 2) ? unpacked(node, key, 0) : projected(node, key, bias, width, heads);
    parts.v = packs(key, 2) ? unpacked(node, key, 1) : projected(node, value, bias, 2 * width, heads);
  }
  if (!parts.q || !parts.k || !parts.v)
    return node.fail("a key without a value");
  for (auto [past, fresh] : {std::pair(node.input(6), &parts.k), std::pair(node.input(7), &parts.v)})
    if (past)
      *fresh = emit.concat({past, *fresh}, 2);
  parts.scale = scoreScale(node, parts.q);
  if (!addMasks(node, parts, node.input(4), node.input(5)))
    return Value();
  return {joinHeads(emit, attend(node, parts).y), parts.k, parts.v};
}

Values mergedAttention(Node &node) {
  Emitter &emit = node.emit;
  if (node.flag("do_rotary") || node.flag("past_present_share_buffer") || node.input(6))
    return node.fail("do_rotary or past_present_share_buffer is set; export the decoder without them");
  if (node.rank(0) != 3 || node.rank(1) != 2)
    return node.fail("multiplies " + toString(node.dims(0)) + " by weights of " + toString(node.dims(1)));
  int64_t heads = node.integer("num_heads", 0);
  std::optional<Ints> sizes = projectionSizes(node, node.dims(1)[1], heads);
  if (!sizes)
    return Value();
  Value all = emit.matmul(node.input(0), node.input(1));
  if (node.input(2))
    all = emit.add(all, node.input(2));
  int64_t first = 0;
  Value projections[3];
  for (auto [i, size] : llvm::enumerate(*sizes)) {
    projections[i] = byHead(node, emit.slice(all, 2, first, size), heads);
    first += size;
  }
  AttentionParts parts{projections[0], projections[1], projections[2]};
  Value present;
  if (Value past = node.input(4)) { // Keys, then values: [2, B, heads, past, D].
    if (node.rank(4) != 5 || node.dims(4)[0] != 2)
      return node.fail("a past of shape " + toString(node.dims(4)));
    Ints shape(node.dims(4).drop_front());
    parts.k = emit.concat({emit.reshape(emit.slice(past, 0, 0, 1), shape), parts.k}, 2);
    parts.v = emit.concat({emit.reshape(emit.slice(past, 0, 1, 1), shape), parts.v}, 2);
  }
  if (node.outputCount() > 1 && parts.k && parts.v) {
    Ints shape(dimsOf(parts.k));
    shape.insert(shape.begin(), 1);
    present = emit.concat({emit.reshape(parts.k, shape), emit.reshape(parts.v, shape)}, 0);
  }
  parts.scale = scoreScale(node, parts.q);
  if (!addMasks(node, parts, node.input(3), node.input(5)))
    return Value();
  return {joinHeads(emit, attend(node, parts).y), present};
}

constexpr OnnxOp table[] = {
    {"com.microsoft.Attention", 2, 7, mergedAttention,
     "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes rotary_embedding_dim scale "
     "unidirectional"},
    {"com.microsoft.MultiHeadAttention", 1, 10, multiHeadAttention, "mask_filter_value num_heads scale unidirectional"},
};

} // namespace

llvm::ArrayRef<OnnxOp> fusedAttentionOps() { return table; }

} // namespace kfuse::ir::onnx
