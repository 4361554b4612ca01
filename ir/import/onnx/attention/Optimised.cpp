// What else ONNX Runtime's transformer optimiser writes as one op: embeddings, norms of groups, biased activations,
// relative positions.
#include "ir/import/onnx/attention/AttentionParts.h"
#include "ir/import/onnx/attention/Ops.h"

#include <cmath>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// The norm of a sum of embeddings, the lengths that a mask gives, and the sum.
Values embedLayerNorm(Node &node) {
  Emitter &emit = node.emit;
  for (unsigned i : {2, 3, 5, 6})
    if (!node.input(i))
      return node.fail("lacks its input " + llvm::Twine(i));
  if (node.rank(0) != 2)
    return node.fail("ids of shape " + toString(node.dims(0)));
  Ints ids(node.dims(0));
  Value sum = emit.gather(node.input(2), node.input(0), 0);
  Value positions = node.input(8) ? emit.gather(node.input(3), node.input(8), 0)
                                  : emit.slice(node.input(3), 0, 0, ids[1]); // 0, 1 and so on.
  sum = emit.add(sum, positions);
  if (node.input(1) && node.input(4))
    sum = emit.add(sum, emit.gather(node.input(4), node.input(1), 0));
  Value lengths;
  if (node.outputCount() > 1)
    lengths = node.input(7) ? emit.cast(emit.reduce(emit.cast(node.input(7), DType::I32), "sum", {1}), DType::I32)
                            : emit.splat(0, DType::I32, {ids[0]});
  return {emit.layerNorm(sum, node.input(5), node.input(6), node.real("epsilon", 1e-12F)), lengths, sum};
}

/// (x - mean) / sqrt(variance + epsilon) * gamma + beta over groups of channels, and SiLU behind it. In f32, as gamma
/// and beta are.
Value groupNorm(Node &node, Value x) {
  Emitter &emit = node.emit;
  if (!x || dimsOf(x).size() < 3)
    return node.fail("an input with less than 3 dimensions");
  Ints dims(dimsOf(x));
  bool isLast = node.flag("channels_last", true);
  int64_t channels = isLast ? dims.back() : dims[1], groups = node.integer("groups", 0);
  if (groups < 1 || channels % groups != 0)
    return node.fail(llvm::Twine(channels) + " channels in " + llvm::Twine(groups) + " groups");
  DType type = dtypeOf(x.getType());
  int64_t each = channels / groups, places = elementsIn(dims) / (dims[0] * channels);
  Value wide = emit.cast(x, DType::F32);
  if (isLast) // [N, places, groups, each] -> [N, groups, places each].
    wide = emit.transpose(emit.reshape(wide, {dims[0], places, groups, each}), {0, 2, 1, 3});
  wide = emit.layerNorm(emit.reshape(wide, {dims[0], groups, places * each}), {}, {}, node.real("epsilon", 1e-5F));
  if (isLast)
    wide = emit.transpose(emit.reshape(wide, {dims[0], groups, places, each}), {0, 2, 1, 3});
  wide = emit.reshape(wide, dims);
  Ints channel(dims.size(), 1);
  channel[isLast ? dims.size() - 1 : 1] = channels;
  auto perChannel = [&](unsigned i) { return emit.reshape(emit.cast(node.input(i), DType::F32), channel); };
  Value y = emit.add(emit.mul(wide, perChannel(1)), perChannel(2));
  switch (node.integer("activation", 0)) {
  case 0:
    break;
  case 1:
    y = emit.unary<SiluOp>(y);
    break;
  default:
    return node.fail("an activation other than 0 (none) and 1 (SiLU)");
  }
  return emit.cast(y, type);
}

Values plainGroupNorm(Node &node) { return groupNorm(node, node.input(0)); }

/// The norm of x + skip (+ bias), and the sum. A skip of [N, C] is the same everywhere.
Values skipGroupNorm(Node &node) {
  Emitter &emit = node.emit;
  Value skip = node.input(3), sum = node.input(0);
  if (node.rank(0) < 3 || !node.flag("channels_last", true))
    return node.fail("channels_last must be set, and its input have 3 dimensions or more");
  if (node.rank(3) == 2) {
    Ints shape(node.rank(0), 1);
    shape.front() = node.dims(3)[0];
    shape.back() = node.dims(3)[1];
    skip = emit.reshape(skip, shape);
  }
  sum = emit.add(sum, skip);
  if (node.input(4))
    sum = emit.add(sum, node.input(4));
  return {groupNorm(node, sum), sum};
}

Values biasAdd(Node &node) { return node.emit.add(node.emit.add(node.input(0), node.input(1)), node.input(2)); }

/// The first half of x + bias times the Gelu of the second.
Values biasSplitGelu(Node &node) {
  Emitter &emit = node.emit;
  Value sum = emit.add(node.input(0), node.input(1));
  if (!sum || dimsOf(sum).empty() || dimsOf(sum).back() % 2 != 0)
    return node.fail("splits an odd number of elements in two");
  int64_t axis = dimsOf(sum).size() - 1, half = dimsOf(sum).back() / 2;
  return emit.mul(emit.slice(sum, axis, 0, half), emit.unary<GeluOp>(emit.slice(sum, axis, half, half)));
}

/// softmax(x + bias) over the dimensions from `axis` on.
Values biasSoftmax(Node &node) {
  Emitter &emit = node.emit;
  Value sum = emit.add(node.input(0), node.input(1));
  int64_t axis = node.normalised(node.integer("axis", 1), node.rank(0));
  if (!sum || node.failed())
    return Value();
  Ints shape(dimsOf(sum)), rows(dimsOf(sum).take_front(axis));
  rows.push_back(elementsIn(dimsOf(sum).drop_front(axis)));
  return emit.reshape(emit.unary<SoftmaxOp>(emit.reshape(sum, rows)), shape);
}

/// The gelu (tanh) of x w + bias.
Values gemmFastGelu(Node &node) {
  Emitter &emit = node.emit;
  Value product = emit.matmul(node.input(0), node.input(1));
  return emit.unary<GeluTanhOp>(node.input(2) ? emit.add(product, node.input(2)) : product);
}

/// T5's bucket of a key that lies `distance` after the query: exact when near, logarithmic when far.
int64_t bucketOf(int64_t distance, bool isBidirectional, int64_t buckets, int64_t farthest) {
  int64_t base = 0, back = -distance;
  if (isBidirectional) {
    buckets /= 2;
    base = back < 0 ? buckets : 0;
    back = std::abs(back);
  } else {
    back = std::max<int64_t>(back, 0);
  }
  int64_t exact = buckets / 2;
  if (back < exact)
    return base + back;
  // In f32, as frameworks do: which side of a whole number a logarithm lies on depends on it.
  float part = std::log(static_cast<float>(back) / static_cast<float>(exact)) /
               std::log(static_cast<float>(farthest) / static_cast<float>(exact)) * static_cast<float>(buckets - exact);
  return base + std::min(exact + static_cast<int64_t>(part), buckets - 1);
}

/// [1, heads, queries, keys] of a table that holds one column after the other: [buckets, heads] in name, in memory
/// [heads, buckets].
Values relativePositionBias(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Ints> rows = node.constantIntegers(1, "query_length"), columns = node.constantIntegers(2, "key_length");
  if (!rows || !columns)
    return Value();
  if (node.rank(0) != 2 || rows->size() != 1 || columns->size() != 1 || rows->front() < 1 || columns->front() < 1)
    return node.fail("a table of shape " + toString(node.dims(0)) + " for " + toString(*rows) + " queries and " +
                     toString(*columns) + " keys");
  int64_t buckets = node.dims(0)[0], heads = node.dims(0)[1], queries = rows->front(), keys = columns->front();
  int64_t farthest = node.integer("max_distance", 128), count = queries + keys - 1;
  bool isBidirectional = node.flag("is_bidirectional");
  if (buckets < (isBidirectional ? 4 : 2) || count > maxFoldedElements || farthest <= buckets / 2)
    return node.fail("a table of " + llvm::Twine(buckets) + " buckets, " + llvm::Twine(count) +
                     " distances, max_distance " + llvm::Twine(farthest));
  Ints ofDistance; // From -(queries - 1) on.
  for (int64_t i = 0; i < count; ++i)
    ofDistance.push_back(bucketOf(i - (queries - 1), isBidirectional, buckets, farthest));
  Value byDistance = emit.gather(emit.reshape(node.input(0), {heads, buckets}), emit.integers(ofDistance), 1);
  Value row = emit.iota({queries, 1}, 0), column = emit.iota({1, keys}, 1);
  Value distance = emit.add(emit.sub(column, row), static_cast<double>(queries - 1));
  return emit.reshape(emit.gather(byDistance, distance, 1), {1, heads, queries, keys});
}

/// DeBERTa's and WavLM's: a bias of positions, scaled by a gate of the queries.
Values gatedRelativePositionBias(Node &node) {
  Emitter &emit = node.emit;
  if (node.input(6))
    return node.fail("token_offset is given: its queries are packed; optimise the model without packing");
  Value q = byHead(node, emit.add(node.input(0), node.input(1)), node.integer("num_heads", 0));
  Value gates = emit.add(emit.matmul(q, node.input(3)), node.input(4));
  if (!gates || dimsOf(gates).size() != 4 || dimsOf(gates)[3] % 2 != 0)
    return node.fail("a gate of shape " + toString(node.dims(3)));
  Ints shape(dimsOf(gates));
  shape[3] /= 2;
  shape.insert(shape.begin() + 3, 2);
  gates = emit.unary<SigmoidOp>(emit.reduce(emit.reshape(gates, shape), "sum", {4}));
  Value first = emit.slice(gates, 3, 0, 1), second = emit.slice(gates, 3, 1, 1);
  Value gate = emit.add(emit.mul(first, emit.add(emit.mul(second, node.input(5)), -1.0)), 2.0);
  return emit.mul(gate, node.input(2));
}

constexpr OnnxOp table[] = {
    {"com.microsoft.BiasAdd", 3, 3, biasAdd},
    {"com.microsoft.BiasSoftmax", 2, 2, biasSoftmax, "axis is_inner_broadcast"},
    {"com.microsoft.BiasSplitGelu", 2, 2, biasSplitGelu},
    {"com.microsoft.EmbedLayerNormalization", 1, 9, embedLayerNorm, "epsilon mask_index_type"},
    {"com.microsoft.GatedRelativePositionBias", 6, 7, gatedRelativePositionBias, "num_heads"},
    {"com.microsoft.GemmFastGelu", 2, 3, gemmFastGelu},
    {"com.microsoft.GroupNorm", 3, 3, plainGroupNorm, "activation channels_last epsilon groups"},
    {"com.microsoft.RelativePositionBias", 3, 3, relativePositionBias, "is_bidirectional max_distance"},
    {"com.microsoft.SkipGroupNorm", 4, 5, skipGroupNorm, "activation channels_last epsilon groups"},
};

} // namespace

llvm::ArrayRef<OnnxOp> optimisedOps() { return table; }

} // namespace kfuse::ir::onnx
