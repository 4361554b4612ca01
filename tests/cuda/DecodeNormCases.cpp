#include "tests/cuda/TemplateCases.h"

namespace kfuse::test {
namespace {

/// Tokens of some sequences whose queries are normalised head by head, and what of that stands around them.
struct NormedHeads {
  std::string name, type, norm;
  int sequences, heads, keyHeads, tokens, keys, size;
  bool rotates = false; ///< Queries, and new keys.
  bool updates = false; ///< Keys, normalised alike, and values are written into their caches.
};

class NormedHeadsText {
public:
  explicit NormedHeadsText(const NormedHeads &given) : g(given) {}

  TemplateCase write() {
    const std::string keyRows = tensor({g.sequences, g.keyHeads, g.keys, g.size}),
                      newRows = tensor({g.sequences, g.tokens, g.keyHeads, g.size}), weight = tensor({g.size}),
                      table = tensor({1, 1, g.tokens, g.size / 2}),
                      state = g.updates ? " {kfuse.role = \"state\"}" : "",
                      result = tensor({g.sequences, g.heads, g.tokens, g.size});
    const std::string query = normedHeads("%q", "%w", g.heads);
    std::string keys = "%k", values = "%v";
    if (g.updates) {
      const std::string key = normedHeads("%kn", "%w", g.keyHeads), value = headsFirst("%vn", g.keyHeads);
      keys = update("%k", key), values = update("%v", value);
    }
    const std::string all = attention(query, ofHeads(keys), ofHeads(values));
    const std::string yielded = (g.updates ? keys + ", " + values + ", " : "") + all,
                      types = (g.updates ? keyRows + ", " + keyRows + ", " : "") + result;
    return {g.name, "func.func @f(%q: " + tensor({g.sequences, g.tokens, g.heads, g.size}) + ", %k: " + keyRows +
                        state + ", %v: " + keyRows + state + ", %w: " + weight + ", %b: " + weight +
                        ", %cos: " + table + ", %sin: " + table + ", %kn: " + newRows + ", %vn: " + newRows +
                        ", %p: tensor<i64>) -> (" + types + ") {\n" + body + "return " + yielded + " : " + types +
                        "\n}"};
  }

private:
  std::string tensor(const std::vector<int> &shape) const {
    std::string text = "tensor<";
    for (int size : shape)
      text += std::to_string(size) + "x";
    return text + g.type + ">";
  }

  std::string emit(const std::string &op, const std::string &types, const std::string &result) {
    const std::string name = "%" + std::to_string(next++);
    body += name + " = " + op + " : (" + types + ") -> " + result + "\n";
    return name;
  }

  std::string norm(const std::string &x, const std::string &w, const std::vector<int> &shape) {
    const std::string t = tensor(shape), row = tensor({shape[0], shape[1], shape[2]}),
                      column = tensor({shape[0], shape[1], shape[2], 1}), vector = tensor({g.size}),
                      scalar = "tensor<" + g.type + ">";
    if (g.norm == "rms")
      return emit("kfuse.rms_norm " + x + ", " + w + " {epsilon = 1.0e-6 : f32}", t + ", " + vector, t);
    if (g.norm == "layer")
      return emit("\"kfuse.layer_norm\"(" + x + ", " + w +
                      ", %b) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}>",
                  t + ", " + vector + ", " + vector, t);
    if (g.norm == "softmax")
      return emit("kfuse.softmax " + x, t, t);
    const bool isMax = g.norm == "max"; // Else L2.
    const std::string of = isMax ? emit("kfuse.abs " + x, t, t) : emit("kfuse.mul " + x + ", " + x, t + ", " + t, t);
    std::string size =
        emit("kfuse.reduce " + of + " {function = \"" + (isMax ? "max" : "sum") + "\", axes = array<i64: 3>}", t, row);
    if (!isMax)
      size = emit("kfuse.sqrt " + size, row, row);
    size = emit("kfuse.reshape " + size, row, column);
    body += "%least" + std::to_string(next) + " = kfuse.constant dense<1.0e-3> : " + scalar + "\n";
    size = emit("kfuse.max " + size + ", %least" + std::to_string(next), column + ", " + scalar, column);
    return emit("kfuse.div " + x + ", " + size, t + ", " + column, t);
  }

  std::string headsFirst(const std::string &x, int heads) {
    return emit("kfuse.transpose " + x + " {permutation = array<i64: 0, 2, 1, 3>}",
                tensor({g.sequences, g.tokens, heads, g.size}), tensor({g.sequences, heads, g.tokens, g.size}));
  }

  std::string normedHeads(const std::string &x, const std::string &w, int heads) {
    const std::string first = headsFirst(norm(x, w, {g.sequences, g.tokens, heads, g.size}), heads);
    const std::string t = tensor({g.sequences, heads, g.tokens, g.size}), table = tensor({1, 1, g.tokens, g.size / 2});
    return g.rotates ? emit("kfuse.rotary " + first + ", %cos, %sin", t + ", " + table + ", " + table, t) : first;
  }

  std::string update(const std::string &state, const std::string &rows) {
    const std::string t = tensor({g.sequences, g.keyHeads, g.keys, g.size});
    return emit("kfuse.state_update " + state + ", " + rows + ", %p {axis = 2 : i64}",
                t + ", " + tensor({g.sequences, g.keyHeads, g.tokens, g.size}) + ", tensor<i64>", t);
  }

  /// Keys or values for each head.
  std::string ofHeads(const std::string &rows) {
    if (g.heads == g.keyHeads)
      return rows;
    const int group = g.heads / g.keyHeads;
    const std::string one = tensor({g.sequences, g.keyHeads, 1, g.keys, g.size}),
                      all = tensor({g.sequences, g.keyHeads, group, g.keys, g.size});
    std::string wide = emit("kfuse.reshape " + rows, tensor({g.sequences, g.keyHeads, g.keys, g.size}), one);
    wide = emit("kfuse.broadcast " + wide, one, all);
    return emit("kfuse.reshape " + wide, all, tensor({g.sequences, g.heads, g.keys, g.size}));
  }

  std::string attention(const std::string &q, const std::string &k, const std::string &v) {
    const std::string rows = tensor({g.sequences, g.heads, g.tokens, g.size}),
                      keys = tensor({g.sequences, g.heads, g.keys, g.size}),
                      scores = tensor({g.sequences, g.heads, g.tokens, g.keys});
    body += "%r = kfuse.attention " + q + ", " + k + ", " + v + " : (" + rows + ", " + keys + ", " + keys + ") -> " +
            rows + " {\n^bb0(%qa: " + rows + ", %ka: " + keys + ", %va: " + keys + "):\n";
    const std::string product = emit("kfuse.matmul %qa, %ka {transpose_b}", rows + ", " + keys, scores);
    const std::string p = emit("kfuse.softmax " + product, scores, scores);
    const std::string sum = emit("kfuse.matmul " + p + ", %va", scores + ", " + keys, rows);
    body += "kfuse.yield " + sum + " : " + rows + "\n}\n";
    return "%r";
  }

  const NormedHeads &g;
  std::string body;
  int next = 0;
};

} // namespace

std::vector<TemplateCase> decodeNormCases() {
  // Sequences, heads, heads of keys, tokens, keys, size.
  const std::vector<NormedHeads> all{
      {"decode_q_norm_ones_f16", "f16", "rms", 1, 1, 1, 1, 1, 16},
      {"decode_q_norm_bf16", "bf16", "rms", 2, 4, 2, 1, 140, 64},
      {"decode_q_norm_rotary_bf16", "bf16", "rms", 2, 4, 1, 1, 150, 32, true},
      {"decode_norms_into_cache_bf16", "bf16", "rms", 2, 4, 2, 1, 133, 32, true, true},
      {"decode_norms_two_tokens_f16", "f16", "rms", 2, 4, 2, 2, 133, 48, true, true},
      {"decode_l2_norm_three_tokens_f16", "f16", "l2", 1, 4, 2, 3, 140, 80},
      {"decode_layer_norms_into_cache_bf16", "bf16", "layer", 1, 6, 2, 1, 100, 96, true, true},
      {"decode_max_of_heads_f16", "f16", "max", 2, 2, 2, 2, 70, 112},
      {"decode_softmax_of_heads_bf16", "bf16", "softmax", 1, 2, 1, 1, 90, 16},
      {"decode_sixteen_normed_rows_bf16", "bf16", "rms", 1, 16, 1, 1, 200, 128, true, true}};
  std::vector<TemplateCase> cases;
  for (const NormedHeads &given : all)
    cases.push_back(NormedHeadsText(given).write());
  return cases;
}

std::vector<TemplateCase> modelDecodeCases() {
  return {NormedHeadsText({"decode_qwen3_bf16", "bf16", "rms", 1, 32, 8, 1, 4096, 128, true, true}).write(),
          NormedHeadsText({"decode_qwen3_f16", "f16", "rms", 4, 32, 8, 1, 1024, 128, true, true}).write()};
}

} // namespace kfuse::test
