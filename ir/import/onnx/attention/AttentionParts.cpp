#include "ir/import/onnx/attention/AttentionParts.h"

#include <cmath>
#include <limits>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Each head of [B, H, S, D] `times` times, neighbours alike.
Value repeatHeads(Emitter &emit, Value x, int64_t times) {
  if (!x || times == 1)
    return x;
  llvm::ArrayRef<int64_t> dims = dimsOf(x);
  Value copies = emit.broadcast(emit.reshape(x, {dims[0], dims[1], 1, dims[2], dims[3]}),
                                {dims[0], dims[1], times, dims[2], dims[3]});
  return emit.reshape(copies, {dims[0], dims[1] * times, dims[2], dims[3]});
}

/// The softmax of rows that have one score more, which is left out of the result.
Value softmaxWithSink(Emitter &emit, Value scores, Value sink) {
  if (!scores || !sink)
    return {};
  Ints dims(dimsOf(scores)), column(dims);
  column.back() = 1;
  Value last = emit.broadcast(emit.reshape(sink, {1, dimsOf(sink)[0], 1, 1}), column);
  Value weights = emit.unary<SoftmaxOp>(emit.concat({scores, emit.cast(last, dtypeOf(scores.getType()))}, 3));
  return emit.slice(weights, 3, 0, dims[3]);
}

} // namespace

Value byHead(Node &node, Value x, int64_t heads) {
  if (!x)
    return x;
  Emitter &emit = node.emit;
  Ints dims(dimsOf(x));
  if (dims.size() == 4)
    return x;
  if (dims.size() != 3 || heads < 1 || dims[2] % heads != 0)
    return node.fail("splits " + toString(dims) + " into " + llvm::Twine(heads) + " heads");
  return emit.transpose(emit.reshape(x, {dims[0], dims[1], heads, dims[2] / heads}), {0, 2, 1, 3});
}

Value joinHeads(Emitter &emit, Value x) {
  if (!x)
    return x;
  Ints dims(dimsOf(x));
  return emit.reshape(emit.transpose(x, {0, 2, 1, 3}), {dims[0], dims[2], dims[1] * dims[3]});
}

Value rotaryTable(Emitter &emit, Value table, Value positions, DType type) {
  Value rows = emit.gather(table, positions, 0);
  if (!rows)
    return rows;
  llvm::ArrayRef<int64_t> dims = dimsOf(rows);
  return emit.cast(emit.reshape(rows, {dims[0], 1, dims[1], dims[2]}), type);
}

Value rotated(Node &node, Value x, Value cos, Value sin, bool interleaved) {
  Emitter &emit = node.emit;
  if (!x || !cos || !sin)
    return {};
  int64_t size = dimsOf(x).back(), turned = 2 * dimsOf(cos).back();
  if (turned > size)
    return node.fail("rotates " + llvm::Twine(turned) + " elements of heads of " + llvm::Twine(size));
  Value result = emit.rotary(emit.slice(x, 3, 0, turned), cos, sin, interleaved);
  return turned < size ? emit.concat({result, emit.slice(x, 3, turned, size - turned)}, 3) : result;
}

double scoreScale(Node &node, Value q) {
  double given = node.real("scale", 0);
  return given != 0 || !q ? given : 1 / std::sqrt(static_cast<double>(dimsOf(q).back()));
}

std::optional<Ints> projectionSizes(Node &node, int64_t all, int64_t heads) {
  Ints sizes = node.integerList("qkv_hidden_sizes").value_or(Ints(3, all / 3));
  bool fits = heads > 0 && sizes.size() == 3 && sizes[0] + sizes[1] + sizes[2] == all && sizes[0] == sizes[1];
  if (fits && llvm::all_of(sizes, [&](int64_t size) { return size > 0 && size % heads == 0; }))
    return sizes;
  node.fail("weights of " + llvm::Twine(all) + " columns hold no query, key and value of " + llvm::Twine(heads) +
            " heads; sizes " + toString(sizes));
  return std::nullopt;
}

AttentionResults attend(Node &node, const AttentionParts &parts) {
  Emitter &emit = node.emit;
  if (!parts.q || !parts.k || !parts.v)
    return {};
  for (Value part : {parts.q, parts.k, parts.v})
    if (dimsOf(part).size() != 4) {
      node.fail("a query, key or value of shape " + toString(dimsOf(part)));
      return {};
    }
  int64_t heads = dimsOf(parts.q)[1], kvHeads = dimsOf(parts.k)[1];
  if (kvHeads < 1 || heads % kvHeads != 0 || dimsOf(parts.v)[1] != kvHeads) {
    node.fail(llvm::Twine(heads) + " query heads do not share " + llvm::Twine(kvHeads) + " key and " +
              llvm::Twine(dimsOf(parts.v)[1]) + " value heads");
    return {};
  }
  int64_t times = heads / kvHeads;
  Value raw = emit.mul(emit.matmul(parts.q, repeatHeads(emit, parts.k, times), false, true), parts.scale);
  Value scores = raw;
  if (parts.softcap != 0)
    scores = emit.mul(emit.unary<TanhOp>(emit.mul(scores, 1 / parts.softcap)), parts.softcap);
  for (Value bias : parts.added)
    scores = emit.add(scores, bias);
  if (!scores)
    return {};
  Value nothing = emit.scalarLike(scores, -std::numeric_limits<double>::infinity());
  for (Value allowed : parts.allowed)
    scores = emit.where(allowed, scores, nothing);
  if (scores && dimsOf(scores) != dimsOf(raw)) {
    node.fail("a mask or bias makes scores of shape " + toString(dimsOf(raw)) + " those of " +
              toString(dimsOf(scores)));
    return {};
  }
  Value weights = parts.sink ? softmaxWithSink(emit, scores, parts.sink) : emit.unary<SoftmaxOp>(scores);
  if (parts.hidesRows)
    weights = emit.where(emit.unary<IsNanOp>(weights), emit.scalarLike(weights, 0), weights);
  return {emit.matmul(weights, repeatHeads(emit, parts.v, times)), raw, weights};
}

} // namespace kfuse::ir::onnx
