#include "tests/cuda/TemplateCases.h"

#include <cstddef>
#include <utility>

namespace kfuse::test {
namespace {

using Dims = std::vector<int>;

std::string tensor(const Dims &shape, const std::string &element) {
  std::string text = "tensor<";
  for (int extent : shape)
    text += std::to_string(extent) + "x";
  return text + element + ">";
}

/// An attention as models write it, line by line.
class FlashCase {
public:
  explicit FlashCase(const FlashSketch &sketch) : s(sketch) {}

  TemplateCase made(std::string name) {
    const Dims scores{s.batch, s.heads, s.rows, s.keys};
    std::string arguments, operands, types, blockArguments;
    auto pass = [&](const std::string &inside, const std::string &outside, const std::string &type) {
      const bool isFirst = operands.empty();
      operands += (isFirst ? "" : ", ") + outside;
      types += (isFirst ? "" : ", ") + type;
      blockArguments += (isFirst ? "" : ", ") + inside + ": " + type;
    };
    auto heads = [&](const std::string &argument, int count, int rows, int size) {
      arguments += ", " + argument + ": " + tensor(stored(count, rows, size), s.type);
      return ofAllHeads(split(argument, count, rows, size), count, rows, size);
    };
    pass("%a", queries(arguments), tensor({s.batch, s.heads, s.rows, s.keySize}, s.type));
    pass("%b", heads("%k", s.keyHeads, s.keys, s.keySize), tensor({s.batch, s.heads, s.keys, s.keySize}, s.type));
    pass("%c", heads("%v", s.keyHeads, s.keys, s.valueSize), tensor({s.batch, s.heads, s.keys, s.valueSize}, s.type));
    if (s.mask == "added" || s.mask == "chosen" || s.mask == "bias") {
      const std::string type = tensor(maskShape(), s.mask == "chosen" ? "i1" : s.type);
      arguments += ", %m: " + type;
      pass("%d", "%m", type);
    }
    if (s.mask == "bounded")
      for (const auto &[inside, outside] : {std::pair("%lo", "%first"), std::pair("%hi", "%end")}) {
        const std::string type = tensor({s.rows}, "i32");
        arguments += std::string(", ") + outside + ": " + type;
        pass(inside, scaledIndex(outside, type, inside == std::string("%lo") ? "6" : "11"), type);
      }
    if (s.hasSink)
      pass("%e", sinks(arguments), tensor({s.batch, s.heads, s.rows, 1}, s.type));
    const std::string outside = std::exchange(body, ""),
                      result = tensor({s.batch, s.heads, s.rows, s.valueSize}, s.type);
    line("%p = kfuse.matmul %a, %b {transpose_b} : (" + tensor({s.batch, s.heads, s.rows, s.keySize}, s.type) + ", " +
         tensor({s.batch, s.heads, s.keys, s.keySize}, s.type) + ") -> " + tensor(scores, s.type));
    const std::string weights = softmax(masked(scaled("%p", scores), scores), scores);
    line("%y = kfuse.matmul " + weights + ", %c : (" + tensor(scores, s.type) + ", " +
         tensor({s.batch, s.heads, s.keys, s.valueSize}, s.type) + ") -> " + result);
    line("kfuse.yield %y : " + result);
    const std::string inside = std::exchange(body, outside);
    body += "%r = kfuse.attention " + operands + " : (" + types + ") -> " + result + " {\n^bb0(" + blockArguments +
            "):\n" + inside + "}\n";
    std::string returned = "%r", returnedType = result;
    if (s.tokensFirst) {
      const Dims moved{s.batch, s.rows, s.heads, s.valueSize}, joined{s.batch, s.rows, s.heads * s.valueSize};
      line("%r1 = kfuse.transpose %r {permutation = array<i64: 0, 2, 1, 3>} : (" + result + ") -> " +
           tensor(moved, s.type));
      line("%r2 = kfuse.reshape %r1 : (" + tensor(moved, s.type) + ") -> " + tensor(joined, s.type));
      returned = "%r2", returnedType = tensor(joined, s.type);
    }
    return {std::move(name), "func.func @f(" + arguments + ") -> " + returnedType + " {\n" + body + "return " +
                                 returned + " : " + returnedType + "\n}"};
  }

private:
  void line(const std::string &text) { body += text + "\n"; }
  std::string named() { return "%x" + std::to_string(next++); }
  std::string emit(const std::string &op, const std::string &types, const std::string &result) {
    const std::string name = named();
    line(name + " = kfuse." + op + " : (" + types + ") -> " + result);
    return name;
  }
  std::string constant(const std::string &number, const std::string &type) {
    const std::string name = named();
    line(name + " = kfuse.constant dense<" + number + "> : tensor<" + type + ">");
    return name;
  }

  Dims maskShape() const {
    return s.mask == "bias" ? Dims{1, s.heads, s.rows, s.keys} : Dims{s.batch, 1, s.rows, s.keys};
  }
  Dims stored(int count, int rows, int size) const {
    return s.tokensFirst ? Dims{s.batch, rows, count * size} : Dims{s.batch, count, rows, size};
  }
  std::string queries(std::string &arguments) {
    const std::string type = tensor(stored(s.heads, s.rows, s.keySize), s.type),
                      ofHeads = tensor({s.batch, s.heads, s.rows, s.keySize}, s.type);
    if (s.front == "cast") {
      const std::string wide = tensor(stored(s.heads, s.rows, s.keySize), "f32");
      arguments += "%q: " + wide;
      return split(emit("cast %q", wide, type), s.heads, s.rows, s.keySize);
    }
    arguments += "%q: " + type;
    std::string x = split("%q", s.heads, s.rows, s.keySize);
    if (s.front == "norm") {
      const std::string weights = tensor({s.keySize}, s.type);
      arguments += ", %w: " + weights;
      x = emit("rms_norm " + x + ", %w {epsilon = 1.0e-6 : f32}", ofHeads + ", " + weights, ofHeads);
    }
    if (s.front.empty())
      return x;
    const std::string table = tensor({1, 1, s.rows, s.keySize / 2}, s.type);
    arguments += ", %cos: " + table + ", %sin: " + table;
    return emit("rotary " + x + ", %cos, %sin", ofHeads + ", " + table + ", " + table, ofHeads);
  }

  std::string split(const std::string &of, int count, int rows, int size) {
    if (!s.tokensFirst)
      return of;
    const std::string parts = tensor({s.batch, rows, count, size}, s.type);
    const std::string shaped = emit("reshape " + of, tensor({s.batch, rows, count * size}, s.type), parts);
    return emit("transpose " + shaped + " {permutation = array<i64: 0, 2, 1, 3>}", parts,
                tensor({s.batch, count, rows, size}, s.type));
  }
  /// Heads that share keys as exporters write it.
  std::string ofAllHeads(const std::string &of, int count, int rows, int size) {
    if (count == s.heads)
      return of;
    const std::string given = tensor({s.batch, count, rows, size}, s.type),
                      one = tensor({s.batch, count, 1, rows, size}, s.type),
                      all = tensor({s.batch, count, s.heads / count, rows, size}, s.type);
    const std::string repeated = emit("broadcast " + emit("reshape " + of, given, one), one, all);
    return emit("reshape " + repeated, all, tensor({s.batch, s.heads, rows, size}, s.type));
  }

  /// Integers of inputs, which are small, over more of the keys.
  std::string scaledIndex(const std::string &of, const std::string &type, const std::string &by) {
    return emit("mul " + of + ", " + constant(by, "i32"), type + ", tensor<i32>", type);
  }
  /// One score for each row, the same for all of a head.
  std::string sinks(std::string &arguments) {
    const std::string given = tensor({s.heads}, s.type), ofHeads = tensor({1, s.heads, 1, 1}, s.type);
    arguments += ", %s: " + given;
    return emit("broadcast " + emit("reshape %s", given, ofHeads), ofHeads,
                tensor({s.batch, s.heads, s.rows, 1}, s.type));
  }

  std::string scaled(const std::string &product, const Dims &shape) {
    const std::string type = tensor(shape, s.type), number = "tensor<" + s.type + ">";
    if (s.scale.empty())
      return product;
    const std::string score = emit("mul " + product + ", " + constant(s.scale, s.type), type + ", " + number, type);
    return s.isCapped ? emit("tanh " + score, type, type) : score;
  }

  std::string index(int dim, const std::string &more) {
    const std::string name = named(), type = dim == 0 ? tensor({s.rows, 1}, "i64") : tensor({1, s.keys}, "i64");
    line(name + " = kfuse.iota {dim = " + std::to_string(dim) + " : i64} : " + type);
    return more.empty() ? name : emit("add " + name + ", " + constant(more, "i64"), type + ", tensor<i64>", type);
  }
  std::string compared(const std::string &op, const std::string &key, const std::string &row) {
    return emit(op + " " + key + ", " + row, tensor({1, s.keys}, "i64") + ", " + tensor({s.rows, 1}, "i64"),
                tensor({s.rows, s.keys}, "i1"));
  }
  std::string masked(const std::string &score, const Dims &shape) {
    const std::string type = tensor(shape, s.type), pairs = tensor({s.rows, s.keys}, "i1"),
                      number = "tensor<" + s.type + ">",
                      infinite = s.type == "bf16"  ? "0xFF80"
                                 : s.type == "f16" ? "0xFC00"
                                                   : "0xFF800000",
                      mask = tensor(maskShape(), s.mask == "chosen" ? "i1" : s.type);
    auto choose = [&](const std::string &condition, const std::string &conditionType) {
      return emit("where " + condition + ", " + score + ", " + constant(infinite, s.type),
                  conditionType + ", " + type + ", " + number, type);
    };
    if (s.mask == "added" || s.mask == "bias")
      return emit("add " + score + ", %d", type + ", " + mask, type);
    if (s.mask == "chosen")
      return choose("%d", mask);
    if (s.mask == "bounded") {
      const std::string keyType = tensor({1, s.keys}, "i32"), rowType = tensor({s.rows, 1}, "i32"), key = named();
      line(key + " = kfuse.iota {dim = 1 : i64} : " + keyType);
      auto compare = [&](const std::string &op, const std::string &bound) {
        return emit(op + " " + key + ", " + emit("reshape " + bound, tensor({s.rows}, "i32"), rowType),
                    keyType + ", " + rowType, pairs);
      };
      const std::string begins = compare("ge", "%lo"), ends = compare("lt", "%hi");
      return choose(emit("and " + begins + ", " + ends, pairs + ", " + pairs, pairs), pairs);
    }
    if (s.mask == "causal")
      return choose(compared("le", index(1, ""), index(0, s.offset)), pairs);
    if (s.mask == "window") {
      const std::string last = compared("le", index(1, ""), index(0, s.offset)),
                        first = compared("gt", index(1, "19"), index(0, s.offset));
      return choose(emit("and " + last + ", " + first, pairs + ", " + pairs, pairs), pairs);
    }
    if (s.mask == "chunked") {
      auto chunk = [&](int dim) {
        const std::string type = dim == 0 ? tensor({s.rows, 1}, "i64") : tensor({1, s.keys}, "i64");
        return emit("div " + index(dim, dim == 0 ? s.offset : "") + ", " + constant("24", "i64"),
                    type + ", tensor<i64>", type);
      };
      const std::string last = compared("le", index(1, ""), index(0, s.offset)),
                        own = compared("eq", chunk(1), chunk(0));
      return choose(emit("and " + last + ", " + own, pairs + ", " + pairs, pairs), pairs);
    }
    if (s.mask == "causal added") { // With the type's lowest number.
      const std::string hidden = compared("gt", index(1, ""), index(0, s.offset)),
                        added = tensor({s.rows, s.keys}, s.type);
      const std::string chosen =
          emit("where " + hidden + ", " + constant("-3.38e38", s.type) + ", " + constant("0.0", s.type),
               pairs + ", " + number + ", " + number, added);
      return emit("add " + score + ", " + chosen, type + ", " + added, type);
    }
    return score;
  }

  std::string softmax(const std::string &score, const Dims &shape) {
    const std::string type = tensor(shape, s.type), wide = tensor(shape, "f32");
    std::string weights;
    if (s.hasSink) {
      Dims longer = shape;
      longer.back() += 1;
      const std::string longerType = tensor(longer, s.type);
      const std::string all = emit("concat " + score + ", %e {axis = 3 : i64}",
                                   type + ", " + tensor({s.batch, s.heads, s.rows, 1}, s.type), longerType);
      weights = emit("slice " + emit("softmax " + all, longerType, longerType) +
                         " {offsets = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>}",
                     longerType, type);
    } else if (s.widens)
      weights = emit("cast " + emit("softmax " + emit("cast " + score, type, wide), wide, wide), wide, type);
    else
      weights = emit("softmax " + score, type, type);
    if (!s.isGuarded)
      return weights;
    const std::string isNan = emit("is_nan " + weights, type, tensor(shape, "i1"));
    return emit("where " + isNan + ", " + constant("0.0", s.type) + ", " + weights,
                tensor(shape, "i1") + ", tensor<" + s.type + ">, " + type, type);
  }

  const FlashSketch &s;
  std::string body;
  int next = 0;
};

} // namespace

TemplateCase flashCase(const FlashSketch &sketch) {
  std::string name = "flash_" + std::to_string(sketch.batch) + "x" + std::to_string(sketch.heads) + "of" +
                     std::to_string(sketch.keyHeads) + "_" + std::to_string(sketch.rows) + "x" +
                     std::to_string(sketch.keys) + "_" + std::to_string(sketch.keySize) + "x" +
                     std::to_string(sketch.valueSize) + (sketch.mask.empty() ? "" : "_" + sketch.mask) +
                     (sketch.offset.empty() ? "" : "_from" + sketch.offset) + (sketch.isCapped ? "_capped" : "") +
                     (sketch.tokensFirst ? "_tokens" : "") + (sketch.isGuarded ? "_guarded" : "") +
                     (sketch.widens ? "_widened" : "") + (sketch.hasSink ? "_sink" : "") +
                     (sketch.front.empty() ? "" : "_" + sketch.front) + "_" + sketch.type;
  for (char &c : name)
    if (c == ' ' || c == '-')
      c = '_';
  return FlashCase(sketch).made(std::move(name));
}

std::vector<TemplateCase> flashCases() {
  const FlashSketch sketches[] = {
      {.rows = 50, .keys = 50, .keySize = 32, .valueSize = 32},
      {.heads = 4, .rows = 77, .keys = 77, .keySize = 64, .valueSize = 64, .mask = "causal", .tokensFirst = true},
      {.type = "f16", .batch = 1, .rows = 33, .keys = 150, .keySize = 40, .valueSize = 72, .scale = ""},
      {.heads = 6,
       .keyHeads = 2,
       .rows = 45,
       .keys = 98,
       .keySize = 48,
       .valueSize = 32,
       .mask = "causal",
       .offset = "53"},
      // The first rows see no key at all: NaN, or 0 where the graph guards it.
      {.batch = 1, .rows = 90, .keys = 70, .keySize = 32, .valueSize = 32, .mask = "causal", .offset = "-20"},
      {.batch = 1,
       .rows = 90,
       .keys = 70,
       .keySize = 32,
       .valueSize = 32,
       .mask = "causal",
       .offset = "-20",
       .isGuarded = true},
      {.type = "f16", .batch = 1, .rows = 130, .keys = 130, .keySize = 32, .valueSize = 40, .mask = "window"},
      {.batch = 1, .rows = 120, .keys = 130, .keySize = 32, .valueSize = 32, .mask = "chunked", .offset = "10"},
      {.batch = 1, .rows = 70, .keys = 93, .keySize = 32, .valueSize = 32, .mask = "added", .isGuarded = true},
      {.batch = 2, .rows = 49, .keys = 61, .keySize = 64, .valueSize = 32, .mask = "chosen", .isGuarded = true},
      {.batch = 5, .heads = 3, .keyHeads = 3, .rows = 49, .keys = 49, .keySize = 32, .valueSize = 32, .mask = "bias"},
      {.batch = 1, .rows = 66, .keys = 66, .keySize = 32, .valueSize = 32, .mask = "causal", .isCapped = true},
      {.batch = 1, .rows = 66, .keys = 66, .keySize = 32, .valueSize = 32, .mask = "causal added", .widens = true},
      {.batch = 1, .heads = 1, .keyHeads = 1, .rows = 40, .keys = 81, .keySize = 256, .valueSize = 256},
      {.batch = 1,
       .heads = 1,
       .keyHeads = 1,
       .rows = 68,
       .keys = 37,
       .keySize = 192,
       .valueSize = 128,
       .mask = "causal"},
      {.batch = 3, .heads = 3, .keyHeads = 1, .rows = 5, .keys = 9, .keySize = 8, .valueSize = 8, .tokensFirst = true},
      // Some of these rows see no key.
      {.rows = 90, .keys = 99, .keySize = 32, .valueSize = 32, .mask = "bounded", .isGuarded = true},
      {.type = "f16",
       .batch = 1,
       .heads = 4,
       .rows = 190,
       .keys = 80,
       .keySize = 64,
       .valueSize = 48,
       .mask = "bounded"},
      {.type = "f32", .batch = 1, .rows = 50, .keys = 90, .keySize = 20, .valueSize = 12, .mask = "bounded"},
      {.heads = 4, .rows = 53, .keys = 75, .keySize = 64, .valueSize = 64, .mask = "window", .hasSink = true},
      // Rows without keys give 0, all weight being the sink's.
      {.type = "f16",
       .heads = 6,
       .rows = 81,
       .keys = 70,
       .keySize = 32,
       .valueSize = 40,
       .mask = "causal",
       .offset = "-20",
       .hasSink = true},
      {.type = "f32", .batch = 1, .rows = 40, .keys = 33, .keySize = 20, .valueSize = 12, .hasSink = true},
      // Queries that the kernel computes.
      {.heads = 4,
       .rows = 77,
       .keys = 77,
       .keySize = 64,
       .valueSize = 64,
       .mask = "causal",
       .tokensFirst = true,
       .front = "rotary"},
      {.batch = 1,
       .heads = 6,
       .keyHeads = 2,
       .rows = 140,
       .keys = 98,
       .keySize = 72,
       .valueSize = 32,
       .tokensFirst = true,
       .front = "norm"},
      {.type = "f16",
       .batch = 1,
       .rows = 130,
       .keys = 70,
       .keySize = 40,
       .valueSize = 40,
       .mask = "window",
       .front = "cast"},
      {.type = "f16",
       .batch = 1,
       .heads = 4,
       .keyHeads = 1,
       .rows = 20,
       .keys = 50,
       .keySize = 128,
       .valueSize = 128,
       .mask = "causal",
       .front = "norm"},
      // Without tensor cores.
      {.type = "f32", .batch = 1, .rows = 77, .keys = 85, .keySize = 32, .valueSize = 32, .mask = "causal"},
      {.type = "f32",
       .batch = 1,
       .heads = 4,
       .keyHeads = 2,
       .rows = 40,
       .keys = 33,
       .keySize = 36,
       .valueSize = 20,
       .mask = "added",
       .isCapped = true,
       .isGuarded = true},
      {.rows = 13, .keys = 13, .keySize = 22, .valueSize = 22, .mask = "causal", .tokensFirst = true},
      {.type = "f16", .batch = 1, .rows = 70, .keys = 50, .keySize = 33, .valueSize = 33, .mask = "window"},
      {.type = "f32", .batch = 1, .heads = 1, .keyHeads = 1, .rows = 35, .keys = 40, .keySize = 256, .valueSize = 250},
  };
  std::vector<TemplateCase> cases;
  for (const FlashSketch &sketch : sketches)
    cases.push_back(flashCase(sketch));
  return cases;
}

std::vector<TemplateCase> largeFlashCases() {
  const FlashSketch sketches[] = {
      {.batch = 1,
       .heads = 8,
       .keyHeads = 2,
       .rows = 777,
       .keys = 777,
       .keySize = 128,
       .valueSize = 128,
       .mask = "causal",
       .tokensFirst = true},
      {.batch = 3,
       .heads = 4,
       .keyHeads = 4,
       .rows = 257,
       .keys = 257,
       .keySize = 64,
       .valueSize = 64,
       .tokensFirst = true},
      {.type = "f16",
       .batch = 1,
       .heads = 3,
       .keyHeads = 3,
       .rows = 500,
       .keys = 500,
       .keySize = 80,
       .valueSize = 80,
       .mask = "causal"},
      {.batch = 1,
       .heads = 2,
       .keyHeads = 2,
       .rows = 300,
       .keys = 600,
       .keySize = 96,
       .valueSize = 96,
       .mask = "causal",
       .offset = "300"},
      {.batch = 1,
       .heads = 2,
       .keyHeads = 1,
       .rows = 400,
       .keys = 401,
       .keySize = 256,
       .valueSize = 256,
       .mask = "causal",
       .isCapped = true},
      {.batch = 1,
       .heads = 2,
       .keyHeads = 2,
       .rows = 260,
       .keys = 333,
       .keySize = 192,
       .valueSize = 128,
       .mask = "causal",
       .offset = "73"},
      {.type = "f16", .batch = 2, .heads = 2, .keyHeads = 2, .rows = 448, .keys = 1500, .keySize = 64, .valueSize = 64},
      {.type = "f32",
       .batch = 2,
       .heads = 8,
       .keyHeads = 2,
       .rows = 500,
       .keys = 500,
       .mask = "causal",
       .tokensFirst = true},
      {.batch = 70,
       .heads = 4,
       .keyHeads = 4,
       .rows = 49,
       .keys = 49,
       .keySize = 32,
       .valueSize = 32,
       .mask = "added",
       .isGuarded = true},
      {.batch = 1,
       .heads = 4,
       .keyHeads = 4,
       .rows = 600,
       .keys = 600,
       .keySize = 128,
       .valueSize = 128,
       .mask = "window"},
      {.batch = 2,
       .heads = 2,
       .keyHeads = 2,
       .rows = 200,
       .keys = 300,
       .keySize = 64,
       .valueSize = 64,
       .mask = "chosen",
       .isGuarded = true},
  };
  std::vector<TemplateCase> cases;
  for (const FlashSketch &sketch : sketches)
    cases.push_back(flashCase(sketch));
  return cases;
}

} // namespace kfuse::test
