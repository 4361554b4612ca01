// Random models of attention as text: what exporters write around caches, norms of heads and masks, at sizes of one,
// too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace kfuse::test {

/// A function @main that attends once, in bf16 or f16, as separate products and a softmax: from rows, or a product of
/// them, through split heads, their norms, rotary and a cache (given, put together with new rows, or written into) to
/// scores with a scale and a mask, and on to merged heads.
class RandomAttention {
public:
  explicit RandomAttention(unsigned seed) : random(seed) {
    type = pick({"bf16", "f16"});
    batch = pick({1, 1, 2}), tokens = pick({1, 1, 1, 2, 3, 19, 70});
    keyHeads = pick({1, 1, 2}), heads = keyHeads * pick({1, 1, 2, 4});
    size = pick({16, 16, 32, 48, 64, 128, 8});
    norm = pick({"", "rms", "rms", "rms", "l2", "layer", "softmax", "max"});
    normsKeys = chance(2), normsBefore = chance(2), rotates = chance(2);
    build();
  }

  std::string text() const {
    return "func.func @main(" + arguments + ") -> (" + resultTypes + ") {\n" + body + "return " + results + " : " +
           resultTypes + "\n}\n";
  }

private:
  using Dims = std::vector<int>;
  struct Value {
    std::string name;
    Dims shape;
    std::string type;
  };

  template <class T> T pick(std::initializer_list<T> of) { return of.begin()[random() % of.size()]; }
  bool chance(unsigned in) { return random() % in == 0; }

  static std::string typeOf(const Dims &shape, const std::string &element) {
    std::string text = "tensor<";
    for (int extent : shape)
      text += std::to_string(extent) + "x";
    return text + element + ">";
  }
  static std::string typeOf(const Value &value) { return typeOf(value.shape, value.type); }

  Value argument(const Dims &shape, const std::string &role, const std::string &element) {
    const std::string number = std::to_string(argumentCount++), name = "%arg" + number;
    arguments += (arguments.empty() ? "" : ", ") + name + ": " + typeOf(shape, element) + " {kfuse.role = \"" + role +
                 "\", kfuse.name = \"a" + number + "\"}";
    return {name, shape, element};
  }
  Value argument(const Dims &shape, const std::string &role = "input") { return argument(shape, role, type); }

  Value emit(const std::string &op, const std::vector<Value> &operands, const Dims &shape,
             const std::string &attributes = "", const std::string &element = "") {
    Value result{"%" + std::to_string(next++), shape, element.empty() ? type : element};
    std::string names, types;
    for (const Value &operand : operands) {
      names += (names.empty() ? "" : ", ") + operand.name;
      types += (types.empty() ? "" : ", ") + typeOf(operand);
    }
    const bool isPlain = op != "layer_norm";
    body += result.name + " = " + (isPlain ? "kfuse." + op + " " + names : "\"kfuse." + op + "\"(" + names + ")") +
            " " + attributes + " : (" + types + ") -> " + typeOf(result) + "\n";
    return result;
  }
  Value constant(const std::string &number, const std::string &element = "") {
    Value result{"%" + std::to_string(next++), {}, element.empty() ? type : element};
    body += result.name + " = kfuse.constant dense<" + number + "> : " + typeOf(result) + "\n";
    return result;
  }

  Value reshape(const Value &x, const Dims &shape) {
    return x.shape == shape ? x : emit("reshape", {x}, shape, "", x.type);
  }
  Value transpose(const Value &x, const Dims &permutation) {
    Dims shape;
    std::string list;
    for (int dim : permutation) {
      shape.push_back(x.shape[static_cast<std::size_t>(dim)]);
      list += (list.empty() ? "" : ", ") + std::to_string(dim);
    }
    return emit("transpose", {x}, shape, "{permutation = array<i64: " + list + ">}");
  }
  Value reduceLast(const Value &x, const std::string &function) {
    Dims rows(x.shape.begin(), x.shape.end() - 1), kept = rows;
    kept.push_back(1);
    const std::string axis = std::to_string(x.shape.size() - 1);
    return reshape(emit("reduce", {x}, rows, "{function = \"" + function + "\", axes = array<i64: " + axis + ">}"),
                   kept);
  }

  /// The norm of the rows of `x` along its last dimension.
  Value normed(const Value &x) {
    const int columns = x.shape.back();
    if (norm == "rms")
      return emit("rms_norm", {x, argument({columns}, "parameter")}, x.shape, "{epsilon = 1.0e-5 : f32}");
    if (norm == "layer")
      return emit("layer_norm", {x, argument({columns}, "parameter"), argument({columns}, "parameter")}, x.shape,
                  "<{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}>");
    if (norm == "softmax")
      return emit("softmax", {x}, x.shape);
    if (norm.empty())
      return x;
    Value length =
        norm == "max" ? reduceLast(emit("abs", {x}, x.shape), "max") : reduceLast(emit("mul", {x, x}, x.shape), "sum");
    if (norm == "l2")
      length = emit("sqrt", {length}, length.shape);
    length = emit("max", {length, constant("1.0e-2")}, length.shape);
    return emit("div", {x, length}, x.shape);
  }

  /// [batch, heads, tokens, size] from [batch, tokens, heads * size].
  Value splitHeads(const Value &rows, int count, bool isNormed, bool isRotated) {
    Value x = reshape(rows, {batch, tokens, count, size});
    if (isNormed && normsBefore)
      x = normed(x);
    x = tokens == 1 && chance(2) ? reshape(x, {batch, count, 1, size}) : transpose(x, {0, 2, 1, 3});
    if (isNormed && !normsBefore)
      x = normed(x);
    if (!isRotated)
      return x;
    const Dims table{1, 1, tokens, size / 2};
    return emit("rotary", {x, argument(table), argument(table)}, x.shape);
  }

  struct Rows {
    Value query, key, value;
  };
  Rows rows() {
    const int q = heads * size, k = keyHeads * size;
    if (chance(2))
      return {argument({batch, tokens, q}), argument({batch, tokens, k}), argument({batch, tokens, k})};
    const Value x = argument({batch, tokens, 16}), w = argument({16, q + 2 * k}, "parameter");
    const Value all = emit("matmul", {x, w}, {batch, tokens, q + 2 * k});
    auto part = [&](int offset, int columns) {
      return emit("slice", {all}, {batch, tokens, columns},
                  "{offsets = array<i64: 0, 0, " + std::to_string(offset) + ">, strides = array<i64: 1, 1, 1>}");
    };
    return {part(0, q), part(q, k), part(q + k, k)};
  }

  void giveBack(const Value &value) {
    results += (results.empty() ? "" : ", ") + value.name;
    resultTypes += (resultTypes.empty() ? "" : ", ") + typeOf(value);
  }

  /// What is attended to, [batch, heads of keys, keys, size], given the new rows of it.
  Value cached(const Value &fresh) {
    if (cache == "none")
      return fresh;
    const Dims headsFirst{batch, keyHeads, keys, size}, tokensFirst{batch, keys, keyHeads, size};
    if (cache == "given")
      return isHeadsFirst ? argument(headsFirst) : transpose(argument(tokensFirst), {0, 2, 1, 3});
    if (cache == "concat") {
      const Value past = argument({batch, keyHeads, keys - tokens, size});
      const Value all = emit("concat", {past, fresh}, headsFirst, "{axis = 2 : i64}");
      if (chance(2))
        giveBack(all);
      return all;
    }
    const Value state = argument(isHeadsFirst ? headsFirst : tokensFirst, "state");
    const Value rows = isHeadsFirst ? fresh : transpose(fresh, {0, 2, 1, 3});
    const Value all = emit("state_update", {state, rows, position}, state.shape,
                           std::string("{axis = ") + (isHeadsFirst ? "2" : "1") + " : i64}");
    giveBack(all);
    return isHeadsFirst ? all : transpose(all, {0, 2, 1, 3});
  }

  /// Each head's of those that share them.
  Value ofHeads(const Value &x) {
    if (heads == keyHeads)
      return x;
    const Value one = reshape(x, {batch, keyHeads, 1, keys, size});
    return reshape(emit("broadcast", {one}, {batch, keyHeads, heads / keyHeads, keys, size}),
                   {batch, heads, keys, size});
  }

  Value scaled(const Value &scores, const Value &query) {
    switch (random() % 5) {
    case 0:
      return emit("mul", {scores, constant("0.25")}, scores.shape);
    case 1:
      return emit("mul", {scores, reduceLast(emit("abs", {query}, query.shape), "max")}, scores.shape);
    case 2:
      return emit("mul", {scores, argument({1})}, scores.shape);
    default:
      return scores;
    }
  }

  Value masked(const Value &scores) {
    const Dims rows = pick<Dims>({{tokens, keys}, {batch, 1, tokens, keys}, {keys}, {batch, 1, 1, keys}});
    const std::string lowest = type == "bf16" ? "0xFF80" : "0xFC00";
    switch (random() % 8) {
    case 0:
      return emit("add", {scores, argument(rows)}, scores.shape);
    case 5: { // Causal: from the first row on, or up to the last key by the last row.
      auto index = [&](int dim, const Dims &shape) {
        const Value value{"%" + std::to_string(next++), shape, "i64"};
        body += value.name + " = kfuse.iota {dim = " + std::to_string(dim) + " : i64} : " + typeOf(value) + "\n";
        return value;
      };
      Value last = index(0, {tokens, 1});
      if (chance(2))
        last = emit("add", {last, constant(std::to_string(keys - tokens), "i64")}, last.shape, "", "i64");
      const Value counts = emit("le", {index(1, {1, keys}), last}, {tokens, keys}, "", "i1");
      if (chance(2))
        return emit("where", {counts, scores, constant(lowest)}, scores.shape);
      const Value added = emit("where", {counts, constant("0.0"), constant(lowest)}, {tokens, keys});
      return emit("add", {scores, added}, scores.shape);
    }
    case 1: {
      const Value counts = argument(rows, "input", "i1");
      return emit("where", {counts, scores, constant(lowest)}, scores.shape);
    }
    case 2: { // Keys up to a position.
      const Value index{"%" + std::to_string(next++), {keys}, "i64"};
      body += index.name + " = kfuse.iota {dim = 0 : i64} : " + typeOf(index) + "\n";
      const Value last = position.shape.empty() ? position : reshape(position, {batch, 1, 1, 1});
      const Dims joined = position.shape.empty() ? Dims{keys} : Dims{batch, 1, 1, keys};
      const Value counts = emit(pick({"le", "lt"}), {index, last}, joined, "", "i1");
      return emit("where", {counts, scores, constant(lowest)}, scores.shape);
    }
    case 3: { // What a kernel before it computes.
      const Value mask = argument(rows);
      return emit("add", {scores, emit("sub", {mask, reduceLast(mask, "max")}, rows)}, scores.shape);
    }
    case 4:
      return emit("add", {scores, emit("softmax", {argument(rows)}, rows)}, scores.shape);
    default:
      return scores;
    }
  }

  void build() {
    cache = pick({"none", "given", "concat", "update", "update"});
    isHeadsFirst = chance(2);
    keys = cache == "none" ? tokens : tokens + pick({1, 15, 16, 39});
    position = argument(chance(2) ? Dims{} : Dims{batch}, "input", "i64");

    const Rows given = rows();
    const Value query = splitHeads(given.query, heads, true, rotates);
    const Value key = cached(splitHeads(given.key, keyHeads, normsKeys, rotates)),
                value = cached(splitHeads(given.value, keyHeads, false, false));
    const Dims scoreShape{batch, heads, tokens, keys};
    const Value k = ofHeads(key), v = ofHeads(value);
    Value scores = chance(2) ? emit("matmul", {query, k}, scoreShape, "{transpose_b}")
                             : emit("matmul", {query, transpose(k, {0, 1, 3, 2})}, scoreShape);
    scores = masked(scaled(scores, query));
    Value weights = emit("softmax", {scores}, scoreShape);
    if (chance(3)) {
      const Value isNan = emit("is_nan", {weights}, scoreShape, "", "i1");
      weights = emit("where", {isNan, constant("0.0"), weights}, scoreShape);
    }
    Value y = emit("matmul", {weights, v}, {batch, heads, tokens, size});
    y = tokens == 1 && chance(2) ? y : transpose(y, {0, 2, 1, 3});
    y = reshape(y, {batch, tokens, heads * size});
    if (chance(3))
      y = emit("matmul", {y, argument({heads * size, 16}, "parameter")}, {batch, tokens, 16});
    if (chance(3))
      y = emit("add", {y, argument(y.shape)}, y.shape);
    giveBack(y);
  }

  std::mt19937 random;
  std::string type, norm, cache;
  int batch, tokens, keyHeads, heads, size, keys = 1;
  bool normsKeys, normsBefore, rotates, isHeadsFirst = true;
  Value position;
  std::string arguments, body, results, resultTypes;
  int argumentCount = 0, next = 0;
};

} // namespace kfuse::test
