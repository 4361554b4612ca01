// com.microsoft.PackedAttention and com.microsoft.PackedMultiHeadAttention: sequences of several lengths behind each
// other, [tokens, width], as ONNX Runtime's optimiser writes them for encoders without padding.
#include "ir/import/onnx/attention/AttentionParts.h"
#include "ir/import/onnx/attention/Ops.h"

#include "mlir/IR/Builders.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Tokens of one sequence see each other: [tokens, tokens].
Value sameSequence(Value starts, int64_t tokens) {
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(starts.getParentBlock());
  auto type = mlir::RankedTensorType::get({tokens, tokens}, builder.getI1Type());
  return builder.create<SameSequenceOp>(starts.getLoc(), type, starts, starts);
}

/// [tokens, heads D] as [1, heads, tokens, D].
Value headsOf(Node &node, Value x, int64_t heads) {
  return x ? byHead(node, node.emit.reshape(x, {1, dimsOf(x)[0], dimsOf(x)[1]}), heads) : x;
}

/// Attention of query, key and value, [1, heads, tokens, D] each; `starts` is the number of the input that says where
/// sequences begin, behind the one that says which tokens were padded and in front of a bias of scores.
Values attendPacked(Node &node, Value q, Value k, Value v, unsigned starts) {
  Emitter &emit = node.emit;
  Value begins = node.input(starts);
  if (!q || !k || !v || !begins)
    return node.failed() ? Value()
                         : node.fail("cumulative_sequence_length is missing; give where each sequence begins");
  if (node.input(starts + 1))
    return node.fail("attention_bias is given, which is for padded sequences; use MultiHeadAttention for such a model");
  if (dimsOf(begins).size() != 1 || dimsOf(begins)[0] < 2)
    return node.fail("a cumulative_sequence_length of shape " + toString(dimsOf(begins)) +
                     "; it has one element more than there are sequences");
  AttentionParts parts{q, k, v};
  parts.scale = scoreScale(node, q);
  parts.allowed.push_back(sameSequence(begins, dimsOf(q)[2]));
  Value y = joinHeads(emit, attend(node, parts).y);
  return y ? emit.reshape(y, llvm::ArrayRef(dimsOf(y)).drop_front()) : y;
}

Values packedMultiHeadAttention(Node &node) {
  Emitter &emit = node.emit;
  const int64_t heads = node.integer("num_heads", 0);
  Value query = node.input(0), key = node.input(1), value = node.input(2), bias = node.input(3);
  if (dimsOf(query).size() == 4 && dimsOf(query)[2] == 3 && !key && !value && !bias) { // [tokens, heads, 3, D]
    Ints dims(dimsOf(query));
    Value parts[3];
    for (int64_t i = 0; i < 3; ++i)
      parts[i] = emit.transpose(emit.reshape(emit.slice(query, 2, i, 1), {1, dims[0], dims[1], dims[3]}), {0, 2, 1, 3});
    return attendPacked(node, parts[0], parts[1], parts[2], 5);
  }
  if (!key || !value || node.rank(0) != 2 || node.rank(1) != 2 || node.rank(2) != 2)
    return node.fail("a query of shape " + toString(dimsOf(query)) +
                     (key && value ? "" : " without a key and a value") +
                     "; kfuse knows [tokens, width] of each, and [tokens, heads, 3, size] of all without a bias");
  if (node.dims(1)[0] != node.dims(0)[0] || node.dims(2)[0] != node.dims(0)[0])
    return node.fail(toString(node.dims(0)) + ", " + toString(node.dims(1)) + " and " + toString(node.dims(2)) +
                     " are not of the same tokens");
  int64_t first = 0;
  for (Value *part : {&query, &key, &value}) {
    const int64_t width = dimsOf(*part)[1];
    if (bias)
      *part = emit.add(*part, emit.slice(bias, 0, first, width));
    first += width;
    if (!*part)
      return Value();
  }
  return attendPacked(node, headsOf(node, query, heads), headsOf(node, key, heads), headsOf(node, value, heads), 5);
}

Values packedAttention(Node &node) {
  Emitter &emit = node.emit;
  const int64_t heads = node.integer("num_heads", 0);
  if (node.rank(0) != 2 || node.rank(1) != 2)
    return node.fail("multiplies " + toString(node.dims(0)) + " by weights of " + toString(node.dims(1)));
  const std::optional<Ints> sizes = projectionSizes(node, node.dims(1)[1], heads);
  if (!sizes)
    return Value();
  Value all = emit.add(emit.matmul(node.input(0), node.input(1)), node.input(2));
  Value parts[3];
  int64_t first = 0;
  for (auto [part, size] : llvm::zip(parts, *sizes)) {
    part = headsOf(node, emit.slice(all, 1, first, size), heads);
    first += size;
  }
  return attendPacked(node, parts[0], parts[1], parts[2], 4);
}

constexpr OnnxOp table[] = {
    {"com.microsoft.PackedAttention", 5, 6, packedAttention, "num_heads qkv_hidden_sizes scale"},
    {"com.microsoft.PackedMultiHeadAttention", 1, 7, packedMultiHeadAttention, "mask_filter_value num_heads scale"},
};

} // namespace

llvm::ArrayRef<OnnxOp> packedAttentionOps() { return table; }

} // namespace kfuse::ir::onnx
