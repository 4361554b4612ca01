// com.microsoft.GroupQueryAttention, as onnxruntime-genai writes decoders: projections that may be packed, norms of
// heads, rotary embedding, a cache that is given and returned, causal attention over it.
#include "ir/import/onnx/attention/AttentionParts.h"
#include "ir/import/onnx/attention/Ops.h"

#include <algorithm>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

class GroupQuery {
public:
  explicit GroupQuery(Node &node)
      : node(node), emit(node.emit), heads(node.integer("num_heads", 0)), kvHeads(node.integer("kv_num_heads", 0)) {}

  Values run() {
    if (!isSupported() || !project() || !place())
      return Value();
    normaliseHeads();
    rotate();
    Value keys = cached(3, 1, k), values = cached(4, 2, v);
    if (!keys || !values)
      return Value();
    AttentionParts parts{q, keys, values, scoreScale(node, q), node.real("softcap", 0)};
    parts.sink = node.input(11);
    if (!parts.sink && node.flag("smooth_softmax"))
      parts.sink = emit.splat(0, dtypeOf(q.getType()), {heads});
    hide(parts);
    AttentionResults results = attend(node, parts);
    return {joinHeads(emit, results.y), keys, values};
  }

private:
  bool isSupported();
  bool project();
  bool place();
  void normaliseHeads();
  void rotate();
  Value cached(unsigned pastInput, unsigned presentResult, Value fresh);
  Value atFirstRow(Value past, Value fresh);
  void hide(AttentionParts &parts);

  /// [B] or one number as i64 of `rank` dimensions, the first of them B.
  Value perBatch(Value x, size_t rank) {
    Ints shape(rank, 1);
    shape[0] = elementsIn(dimsOf(x));
    return emit.reshape(emit.cast(x, DType::I64), shape);
  }

  Node &node;
  Emitter &emit;
  int64_t heads, kvHeads;
  Value q, k, v; ///< [B, heads, S, D].
  int64_t batch = 0, length = 0, pastLength = 0, total = 0;
  /// Rows of the cache that are there before this step, of each batch element: [B], or null for a number that is known.
  Value used;
  int64_t knownUsed = 0;
};

bool GroupQuery::isSupported() {
  auto refuse = [&](const llvm::Twine &reason) {
    node.fail(reason);
    return false;
  };
  if (heads < 1 || kvHeads < 1 || !node.input(5) || !node.input(6))
    return refuse("num_heads, kv_num_heads, seqlens_k or total_sequence_length is not given");
  if (node.integer("kv_cache_bit_width", 0) != 0 || node.text("k_quant_type", "NONE") != "NONE" ||
      node.text("v_quant_type", "NONE") != "NONE" || node.input(12) || node.input(13))
    return refuse("its cache is quantised; build the model with a cache of floats");
  if (node.flag("sliding_window_cache"))
    return refuse("sliding_window_cache is set: its cache drops rows by itself; build the model with a whole cache");
  if (node.input(16))
    return refuse("query_seqlens is given; build the model without chunks that are padded");
  if (!node.input(3) != !node.input(4))
    return refuse("it has one of past_key and past_value");
  return true;
}

/// Query, key and value by heads, from three operands or from one that holds all.
bool GroupQuery::project() {
  Ints dims(node.dims(0));
  bool isPacked = !node.input(1);
  int64_t all = isPacked ? heads + 2 * kvHeads : heads;
  if (dims.size() != 3 || dims[2] % all != 0 || !node.input(2) != isPacked) {
    node.fail("its query of shape " + toString(dims) + " does not hold " + llvm::Twine(all) +
              " heads, or one of key and value is missing");
    return false;
  }
  batch = dims[0];
  length = dims[1];
  int64_t size = dims[2] / all;
  auto piece = [&](int64_t first, int64_t count) {
    return byHead(node, emit.slice(node.input(0), 2, first * size, count * size), count);
  };
  q = isPacked ? piece(0, heads) : byHead(node, node.input(0), heads);
  k = isPacked ? piece(heads, kvHeads) : byHead(node, node.input(1), kvHeads);
  v = isPacked ? piece(heads + kvHeads, kvHeads) : byHead(node, node.input(2), kvHeads);
  if (!q || !k || !v)
    return false;
  if (dimsOf(k)[2] == length && dimsOf(k)[0] == batch && dimsOf(k)[3] == size)
    return true;
  node.fail("keys of shape " + toString(dimsOf(k)) + " for queries of shape " + toString(dimsOf(q)));
  return false;
}

/// How long the cache is, and where in it this step's rows go.
bool GroupQuery::place() {
  pastLength = node.input(3) ? dimsOf(node.input(3)).size() == 4 ? node.dims(3)[2] : -1 : 0;
  if (pastLength < 0 || elementsIn(node.dims(5)) != batch || elementsIn(node.dims(6)) != 1) {
    node.fail("a past_key of other than 4 dimensions, or seqlens_k of shape " + toString(node.dims(5)) +
              ", or total_sequence_length of shape " + toString(node.dims(6)));
    return false;
  }
  std::optional<Ints> knownTotal = Emitter::constantIntegers(node.input(6));
  std::optional<Ints> ends = Emitter::constantIntegers(node.input(5));
  std::optional<Ints> present = node.declaredShape(1);
  if (knownTotal)
    total = std::max(pastLength, knownTotal->front());
  else if (present && present->size() == 4)
    total = (*present)[2];
  else
    total = pastLength + length;
  if (total < pastLength || total < length) {
    node.fail("present_key of " + llvm::Twine(total) + " rows for " + llvm::Twine(pastLength) + " of past_key and " +
              llvm::Twine(length) + " new ones");
    return false;
  }
  // Without a past, or where all rows are this step's, they are the first. ONNX Runtime tells a prompt so, too.
  if (pastLength == 0 || (knownTotal && knownTotal->front() == length))
    return true;
  if (ends && llvm::all_equal(*ends)) {
    knownUsed = std::clamp<int64_t>(ends->front() + 1 - length, 0, total - length);
    return true;
  }
  Value end = emit.cast(emit.reshape(node.input(5), {batch}), DType::I64);
  used = emit.add(end, static_cast<double>(1 - length));
  if (length > 1 && !knownTotal) {
    Value whole = emit.cast(emit.reshape(node.input(6), {1}), DType::I64);
    Value isPrompt = emit.binary<EqOp>(whole, emit.scalarLike(whole, static_cast<double>(length)));
    used = emit.where(isPrompt, emit.scalarLike(used, 0), used);
  }
  return static_cast<bool>(used);
}

/// Norms of each head, before the rotation, as Qwen3 has them.
void GroupQuery::normaliseHeads() {
  if (!node.input(14) || !node.input(15))
    return;
  double epsilon = node.real("qk_norm_epsilon", 1e-6F);
  q = emit.rmsNorm(q, node.input(14), node.real("q_norm_epsilon", epsilon));
  k = emit.rmsNorm(k, node.input(15), node.real("k_norm_epsilon", epsilon));
}

void GroupQuery::rotate() {
  if (!node.flag("do_rotary"))
    return;
  Value cos = node.input(7), sin = node.input(8), positions = node.input(9);
  if (!cos || !sin || node.rank(7) != 2 || node.rank(8) != 2) {
    node.fail("do_rotary is set without two tables of angles");
    return;
  }
  bool interleaved = node.flag("rotary_interleaved");
  auto turn = [&](Value cosines, Value sines) {
    q = rotated(node, q, cosines, sines, interleaved);
    k = rotated(node, k, cosines, sines, interleaved);
  };
  DType type = dtypeOf(q.getType());
  if (!positions && !used && knownUsed + length <= node.dims(7)[0]) { // Rows of the tables: no gather.
    auto rows = [&](Value table) {
      Value cut = emit.slice(table, 0, knownUsed, length);
      return cut ? emit.cast(emit.reshape(cut, {1, 1, length, dimsOf(table)[1]}), type) : cut;
    };
    turn(rows(cos), rows(sin));
    return;
  }
  if (!positions) {
    positions = emit.iota({1, length}, 1);
    positions = used ? emit.add(positions, emit.reshape(used, {batch, 1}))
                     : emit.add(positions, static_cast<double>(knownUsed));
  }
  if (dimsOf(positions).size() != 2) {
    node.fail("position_ids of shape " + toString(dimsOf(positions)));
    return;
  }
  turn(rotaryTable(emit, cos, positions, type), rotaryTable(emit, sin, positions, type));
}

/// The cache with this step's rows.
Value GroupQuery::cached(unsigned pastInput, unsigned presentResult, Value fresh) {
  Value past = node.input(pastInput);
  if (!past || !fresh)
    return fresh && total > length ? atFirstRow({}, fresh) : fresh;
  if (pastLength == total && node.mayUpdate(pastInput, presentResult))
    return emit.updateRows(past, fresh, used ? used : emit.reshape(emit.integers(knownUsed), {}), 2);
  if (!used && knownUsed + length == total)
    return emit.concat({emit.slice(past, 2, 0, knownUsed), fresh}, 2);
  if (!used)
    return atFirstRow(past, fresh);
  Ints dims(dimsOf(past)), missing(dims);
  missing[2] = total - pastLength;
  if (missing[2] > 0)
    past = emit.concat({past, emit.splat(0, dtypeOf(past.getType()), missing)}, 2);
  // Where a row is one of this step's, it is that one, else what was there.
  Value row = emit.iota({1, 1, total, 1}, 2), first = perBatch(used, 4);
  if (length == 1)
    return emit.where(emit.binary<EqOp>(row, first), fresh, past);
  Value number = emit.sub(row, first); // The new row's number.
  Value isNew = emit.binary<AndOp>(emit.binary<GeOp>(number, emit.scalarLike(number, 0)),
                                   emit.binary<LtOp>(number, emit.scalarLike(number, static_cast<double>(length))));
  if (!number || !isNew)
    return {};
  // By batch element and row together: [B S, heads, D].
  Value rows = emit.reshape(emit.transpose(fresh, {0, 2, 1, 3}), {batch * length, kvHeads, dims[3]});
  Value inside = emit.binary<MinOp>(emit.binary<MaxOp>(number, emit.scalarLike(number, 0)),
                                    emit.scalarLike(number, static_cast<double>(length - 1)));
  Value start = emit.mul(emit.iota({batch, 1, 1, 1}, 0), static_cast<double>(length));
  Value index = emit.reshape(emit.add(inside, start), {batch, total});
  Value spread = emit.transpose(emit.gather(rows, index, 0), {0, 2, 1, 3});
  return emit.where(isNew, spread, past);
}

/// The same where the first new row is known, and rows of the past or of nothing follow.
Value GroupQuery::atFirstRow(Value past, Value fresh) {
  Ints rest(dimsOf(fresh));
  int64_t end = knownUsed + length;
  llvm::SmallVector<Value, 4> pieces;
  if (past && knownUsed > 0)
    pieces.push_back(emit.slice(past, 2, 0, knownUsed));
  pieces.push_back(fresh);
  if (past && pastLength > end)
    pieces.push_back(emit.slice(past, 2, end, pastLength - end));
  rest[2] = total - std::max(end, pastLength);
  if (rest[2] > 0)
    pieces.push_back(emit.splat(0, dtypeOf(fresh.getType()), rest));
  return emit.concat(pieces, 2);
}

/// Keys after a query's own row, and those before its window; of a bias, what belongs to these keys.
void GroupQuery::hide(AttentionParts &parts) {
  if (Value bias = node.input(10)) {
    if (node.rank(10) == 4 && node.dims(10)[3] > total)
      bias = emit.slice(bias, 3, 0, total);
    parts.added.push_back(bias);
  }
  auto column = [&] { return emit.iota({1, 1, 1, total}, 3); };
  auto row = [&](double offset) {
    Value own = length == 1 ? Value() : emit.iota({1, 1, length, 1}, 2);
    if (!used) {
      offset += static_cast<double>(knownUsed);
      return own ? emit.add(own, offset) : emit.reshape(emit.integers(static_cast<int64_t>(offset)), {1, 1, 1, 1});
    }
    Value first = perBatch(used, 4);
    return emit.add(own ? emit.add(own, first) : first, offset);
  };
  if (!node.flag("causal", true)) {
    if (used || knownUsed + length < total) { // Rows of the buffer that nothing has been written to.
      Value end = emit.cast(emit.reshape(node.input(5), {batch, 1, 1, 1}), DType::I64);
      parts.allowed.push_back(emit.binary<LeOp>(column(), end));
    }
    return;
  }
  if (used || length > 1 || knownUsed + length < total)
    parts.allowed.push_back(emit.binary<LeOp>(column(), row(0)));
  int64_t window = node.integer("local_window_size", -1);
  if (window > 0 && (used || window < knownUsed + length))
    parts.allowed.push_back(emit.binary<GtOp>(column(), row(static_cast<double>(-window))));
}

constexpr OnnxOp table[] = {
    {"com.microsoft.GroupQueryAttention", 1, 17, [](Node &node) { return GroupQuery(node).run(); },
     "causal do_rotary k_norm_epsilon k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads "
     "q_norm_epsilon qk_norm_epsilon qk_output rotary_interleaved scale sliding_window_cache smooth_softmax softcap "
     "v_quant_type"},
};

} // namespace

llvm::ArrayRef<OnnxOp> groupQueryOps() { return table; }

} // namespace kfuse::ir::onnx
