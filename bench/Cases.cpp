#include "bench/Cases.h"

#include <cmath>

namespace kfuse::bench {
namespace {

std::string tensor(const std::string &shape, const std::string &type) { return "tensor<" + shape + "x" + type + ">"; }

} // namespace

Case matmul(DType type, std::int64_t M, std::int64_t N, std::int64_t K, bool transposed) {
  std::string element(toString(type)), m = std::to_string(M), n = std::to_string(N), k = std::to_string(K);
  std::string x = tensor(m + "x" + k, element), y = tensor(m + "x" + n, element),
              w = tensor(transposed ? n + "x" + k : k + "x" + n, element);
  return {"matmul " + m + "x" + n + "x" + k + " " + element + (transposed ? ", w^T" : ""),
          "func.func @f(%x: " + x + ", %w: " + w + ") -> " + y + " { %0 = kfuse.matmul %x, %w" +
              (transposed ? " {transpose_b}" : "") + " : (" + x + ", " + w + ") -> " + y + " return %0 : " + y + " }"};
}

Case matmulWith(const std::string &epilogue, std::int64_t M, std::int64_t N, std::int64_t K) {
  std::string m = std::to_string(M), n = std::to_string(N), k = std::to_string(K);
  std::string x = tensor(m + "x" + k, "bf16"), w = tensor(n + "x" + k, "bf16"), y = tensor(m + "x" + n, "bf16"),
              v = tensor(n, "bf16"),
              extra = epilogue == "bias_gelu"  ? v
                      : epilogue == "residual" ? y
                                               : w;
  auto unary = [&](const std::string &op, const std::string &of) {
    return "kfuse." + op + " " + of + " : (" + y + ") -> " + y;
  };
  auto binary = [&](const std::string &op, const std::string &of, const std::string &right) {
    return "kfuse." + op + " " + of + " : (" + y + ", " + right + ") -> " + y;
  };
  auto product = [&](const std::string &weight) {
    return "kfuse.matmul %x, " + weight + " {transpose_b} : (" + x + ", " + w + ") -> " + y;
  };
  std::string body = " %0 = " + product("%w");
  if (epilogue == "bias_gelu")
    body += " %1 = " + binary("add", "%0, %e", v) + " %r = " + unary("gelu_tanh", "%1");
  else if (epilogue == "residual")
    body += " %r = " + binary("add", "%0, %e", y);
  else
    body += " %1 = " + product("%e") + " %2 = " + unary("silu", "%0") + " %r = " + binary("mul", "%2, %1", y);
  return {epilogue + " " + m + "x" + n + "x" + k, "func.func @f(%x: " + x + ", %w: " + w + ", %e: " + extra + ") -> " +
                                                      y + " {" + body + " return %r : " + y + " }"};
}

Case layers(int count, int heads, int rows, int width, int last) {
  auto of = [&](int a, int b) {
    std::string shape = std::to_string(a) + "x" + std::to_string(b);
    return tensor(heads > 1 ? std::to_string(heads) + "x" + shape : shape, "bf16");
  };
  std::string value = "%x", type = tensor(std::to_string(rows) + "x" + std::to_string(width), "bf16"),
              parameters = "%x: " + type, text;
  for (int i = 0; i <= count; ++i) {
    const int columns = i < count ? width : last;
    const std::string n = std::to_string(i), w = heads > 1 ? of(width, columns) : of(columns, width),
                      b = of(1, columns), r = of(rows, columns), types = type + ", " + w + ", " + b;
    parameters += ", %w" + n + ": " + w + ", %b" + n + ": " + b;
    text += "%r" + n + " = kfuse.fused " + value + ", %w" + n + ", %b" + n + " : (" + types + ") -> " + r +
            " {\n^bb0(%t: " + type + ", %u: " + w + ", %v: " + b + "):\n%0 = kfuse.matmul %t, %u" +
            (heads > 1 ? "" : " {transpose_b}") + " : (" + type + ", " + w + ") -> " + r +
            "\n%1 = kfuse.add %0, %v : (" + r + ", " + b + ") -> " + r + "\n%2 = kfuse.relu %1 : (" + r + ") -> " + r +
            "\nkfuse.yield %2 : " + r + "\n}\n";
    value = "%r" + n, type = r;
  }
  return {"layers " + std::to_string(count) + " of " + std::to_string(heads) + "x" + std::to_string(rows) + "x" +
              std::to_string(width),
          "func.func @f(" + parameters + ") -> " + type + " {\n" + text + "return " + value + " : " + type + "\n}"};
}

Case op(const std::string &name, const std::string &shape, const std::string &type, int operands,
        const std::string &attributes) {
  std::string t = tensor(shape, type), parameters, names, types;
  for (int i = 0; i < operands; ++i) {
    std::string argument = "%a" + std::to_string(i);
    parameters += (i ? ", " : "") + argument + ": " + t;
    names += (i ? ", " : "") + argument;
    types += (i ? ", " : "") + t;
  }
  return {name + " " + shape + " " + type, "func.func @f(" + parameters + ") -> " + t + " { %r = kfuse." + name + " " +
                                               names + attributes + " : (" + types + ") -> " + t + " return %r : " + t +
                                               " }"};
}

Case norm(const std::string &name, const std::string &rows, const std::string &columns, const std::string &type) {
  bool isLayer = name == "layer_norm";
  std::string t = tensor(rows + "x" + columns, type), v = tensor(columns, type);
  std::string parameters = "%x: " + t + ", %w: " + v + (isLayer ? ", %b: " + v : ""),
              types = t + ", " + v + (isLayer ? ", " + v : "");
  std::string call =
      isLayer ? "\"kfuse.layer_norm\"(%x, %w, %b) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}>"
              : "kfuse.rms_norm %x, %w {epsilon = 1.0e-5 : f32}";
  return {name + " " + rows + "x" + columns + " " + type, "func.func @f(" + parameters + ") -> " + t +
                                                              " { %r = " + call + " : (" + types + ") -> " + t +
                                                              " return %r : " + t + " }"};
}

Case addRmsNorm(const std::string &rows, const std::string &columns, const std::string &type) {
  std::string t = tensor(rows + "x" + columns, type), v = tensor(columns, type);
  return {"add + rms_norm " + rows + "x" + columns + " " + type,
          "func.func @f(%x: " + t + ", %r: " + t + ", %w: " + v + ") -> (" + t + ", " + t +
              ") { %h = kfuse.add %x, %r : (" + t + ", " + t + ") -> " + t +
              " %y = kfuse.rms_norm %h, %w {epsilon = 1.0e-5 : f32} : (" + t + ", " + v + ") -> " + t +
              " return %h, %y : " + t + ", " + t + " }"};
}

Case swiglu(const std::string &rows, const std::string &columns, const std::string &type) {
  std::string t = tensor(rows + "x" + columns, type);
  return {"silu * y " + rows + "x" + columns + " " + type,
          "func.func @f(%x: " + t + ", %y: " + t + ") -> " + t + " { %s = kfuse.silu %x : (" + t + ") -> " + t +
              " %r = kfuse.mul %s, %y : (" + t + ", " + t + ") -> " + t + " return %r : " + t + " }"};
}

Case rope(const std::string &batch, const std::string &heads, const std::string &tokens, const std::string &size,
          const std::string &type) {
  std::string shape = batch + "x" + heads + "x" + tokens + "x" + size, t = tensor(shape, type),
              table = tensor(tokens + "x" + std::to_string(std::stoi(size) / 2), type);
  return {"rope " + shape + " " + type, "func.func @f(%x: " + t + ", %c: " + table + ", %s: " + table + ") -> " + t +
                                            " { %r = kfuse.rotary %x, %c, %s : (" + t + ", " + table + ", " + table +
                                            ") -> " + t + " return %r : " + t + " }"};
}

Case gatherRows(const std::string &rows, const std::string &columns, const std::string &type) {
  std::string table = tensor("65536x" + columns, type), index = tensor(rows, "i64"),
              t = tensor(rows + "x" + columns, type);
  return {"gather " + rows + "x" + columns + " " + type, "func.func @f(%x: " + table + ", %i: " + index + ") -> " + t +
                                                             " { %r = kfuse.gather %x, %i {axis = 0 : i64} : (" +
                                                             table + ", " + index + ") -> " + t + " return %r : " + t +
                                                             " }"};
}

Case transposeInner(const std::string &a, const std::string &b, const std::string &c, const std::string &d,
                    const std::string &type) {
  std::string shape = a + "x" + b + "x" + c + "x" + d, t = tensor(shape, type),
              r = tensor(a + "x" + c + "x" + d + "x" + b, type);
  return {"transpose 0231 " + shape + " " + type,
          "func.func @f(%x: " + t + ") -> " + r +
              " { %r = kfuse.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (" + t + ") -> " + r +
              " return %r : " + r + " }"};
}

std::vector<Case> memoryBoundCases() {
  std::vector<Case> cases;
  for (auto [rows, columns] : {std::pair{"32768", "8192"},
                               {"65536", "4096"},
                               {"131072", "1024"},
                               {"2048", "131072"},
                               {"2048", "4096"},
                               {"4096", "4096"}}) {
    std::string shape = std::string(rows) + "x" + columns;
    cases.push_back(norm("rms_norm", rows, columns, "bf16"));
    cases.push_back(norm("layer_norm", rows, columns, "bf16"));
    cases.push_back(addRmsNorm(rows, columns, "bf16"));
    cases.push_back(op("softmax", shape, "bf16", 1));
    cases.push_back(swiglu(rows, columns, "bf16"));
    cases.push_back(op("gelu", shape, "bf16", 1));
  }
  for (const Case &other :
       {transpose("8192", "16384", "bf16"), transpose("8192", "8192", "f32"), transpose("8191", "16383", "bf16"),
        transpose("4096", "4096", "bf16"), transposeInner("16", "2048", "32", "128", "bf16"),
        columnSum("16384", "4096", "f32"), columnSum("65536", "4096", "bf16"), columnSum("262144", "512", "bf16"),
        columnSum("8192", "4096", "bf16"), decodeAttention("1", "8192"), decodeAttention("1", "65536"),
        decodeAttention("16", "4096"), decodeAttention("64", "4096"), decodeAttention("64", "8192"),
        rope("16", "32", "2048", "128", "bf16"), gatherRows("32768", "8192", "bf16")})
    cases.push_back(other);
  return cases;
}

std::vector<Case> shortRowCases() {
  constexpr int64_t bytes = 128 << 20;
  std::vector<Case> cases;
  for (int64_t columns : {33, 49, 64, 77, 100, 129, 197, 255, 300})
    for (auto [type, width] : {std::pair{"bf16", 2}, {"f32", 4}}) {
      const std::string rows = std::to_string(bytes / (2 * width * columns)), across = std::to_string(columns);
      cases.push_back(op("softmax", rows + "x" + across, type, 1));
      cases.push_back(norm("layer_norm", rows, across, type));
      cases.push_back(norm("rms_norm", rows, across, type));
    }
  return cases;
}

Case decodeAttention(const std::string &batch, const std::string &keys) {
  std::string q = tensor(batch + "x8x4x128", "bf16"), k = tensor(batch + "x8x" + keys + "x128", "bf16"),
              p = tensor(batch + "x8x4x" + keys, "bf16");
  return {"decode attention B" + batch + " S" + keys,
          "func.func @f(%q: " + q + ", %k: " + k + ", %v: " + k + ") -> " + q +
              " { %r = kfuse.attention %q, %k, %v : (" + q + ", " + k + ", " + k + ") -> " + q + " { ^bb0(%a: " + q +
              ", %b: " + k + ", %c: " + k + "): %0 = kfuse.matmul %a, %b {transpose_b} : (" + q + ", " + k + ") -> " +
              p + " %1 = kfuse.constant dense<0.08838> : tensor<bf16> %2 = kfuse.mul %0, %1 : (" + p +
              ", tensor<bf16>) -> " + p + " %3 = kfuse.softmax %2 : (" + p + ") -> " + p +
              " %4 = kfuse.matmul %3, %c : (" + p + ", " + k + ") -> " + q + " kfuse.yield %4 : " + q +
              " } return %r : " + q + " }"};
}

AttentionCases attention(int64_t heads, int64_t rows, int64_t size, const std::string &type, bool isCausal) {
  const std::string r = std::to_string(rows), head = std::to_string(heads) + "x" + r,
                    t = tensor(head + "x" + std::to_string(size), type), p = tensor(head + "x" + r, type),
                    pairs = tensor(r + "x" + r, "i1"), row = tensor(r + "x1", "i64"), key = tensor("1x" + r, "i64"),
                    number = "tensor<" + type + ">", scale = std::to_string(1 / std::sqrt(static_cast<double>(size)));
  std::string scores = "%0 = kfuse.matmul %a, %b {transpose_b} : (" + t + ", " + t + ") -> " + p +
                       " %1 = kfuse.constant dense<" + scale + "> : " + number + " %2 = kfuse.mul %0, %1 : (" + p +
                       ", " + number + ") -> " + p;
  if (isCausal)
    scores += " %i = kfuse.iota {dim = 0 : i64} : " + row + " %k = kfuse.iota {dim = 1 : i64} : " + key +
              " %m = kfuse.le %k, %i : (" + key + ", " + row + ") -> " + pairs + " %n = kfuse.constant dense<" +
              (type == "f32"   ? "0xFF800000"
               : type == "f16" ? "0xFC00"
                               : "0xFF80") +
              "> : " + number + " %s = kfuse.where %m, %2, %n : (" + pairs + ", " + p + ", " + number + ") -> " + p;
  const std::string score = isCausal ? "%s" : "%2",
                    values = "%o = kfuse.matmul %w, %c : (" + p + ", " + t + ") -> " + t,
                    name = "attention " + head + "x" + std::to_string(size) + " " + type + (isCausal ? " causal" : "");
  return {{name, "func.func @f(%q: " + t + ", %x: " + t + ", %v: " + t + ") -> " + t +
                     " { %r = kfuse.attention %q, %x, %v : (" + t + ", " + t + ", " + t + ") -> " + t + " { ^bb0(%a: " +
                     t + ", %b: " + t + ", %c: " + t + "): " + scores + " %w = kfuse.softmax " + score + " : (" + p +
                     ") -> " + p + " " + values + " kfuse.yield %o : " + t + " } return %r : " + t + " }"},
          {{name + ": scores", "func.func @f(%a: " + t + ", %b: " + t + ") -> " + p + " { " + scores + " return " +
                                   score + " : " + p + " }"},
           op("softmax", head + "x" + r, type, 1),
           {name + ": sums",
            "func.func @f(%w: " + p + ", %c: " + t + ") -> " + t + " { " + values + " return %o : " + t + " }"}}};
}

Case columnSum(const std::string &rows, const std::string &columns, const std::string &type) {
  std::string t = tensor(rows + "x" + columns, type), v = tensor(columns, type);
  return {"column sum " + rows + "x" + columns + " " + type,
          "func.func @f(%x: " + t + ") -> " + v +
              " { %r = kfuse.reduce %x {function = \"sum\", axes = array<i64: 0>} : (" + t + ") -> " + v +
              " return %r : " + v + " }"};
}

Case transpose(const std::string &rows, const std::string &columns, const std::string &type) {
  std::string t = tensor(rows + "x" + columns, type), r = tensor(columns + "x" + rows, type);
  return {"transpose " + rows + "x" + columns + " " + type,
          "func.func @f(%x: " + t + ") -> " + r + " { %r = kfuse.transpose %x {permutation = array<i64: 1, 0>} : (" +
              t + ") -> " + r + " return %r : " + r + " }"};
}

} // namespace kfuse::bench
