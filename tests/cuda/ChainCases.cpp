#include "tests/cuda/RegionText.h"
#include "tests/cuda/TemplateCases.h"

#include <random>

namespace kfuse::test {
namespace {

/// Writes a chain, layer by layer: a function whose body is kfuse.fused ops.
class ChainText {
public:
  ChainText(int batches, int m, std::string type) : batches(batches), m(m), type(std::move(type)) {}

  std::string parameter(const std::string &ofType) {
    const std::string name = "%p" + std::to_string(parameters++);
    signature += (parameters > 1 ? ", " : "") + name + ": " + ofType;
    return name;
  }
  std::string shape(int rows, int columns, bool shared = false) const {
    std::string text = std::to_string(rows) + "x" + std::to_string(columns);
    return tensor(batches > 0 && !shared ? std::to_string(batches) + "x" + text : text, type);
  }
  std::string rows(int columns) const { return shape(m, columns); }

  /// Adds a layer: `body(arguments)` is its text, which defines %r. Returns the name of its result.
  template <class Body>
  std::string layer(const std::vector<std::string> &values, const std::vector<std::string> &types,
                    const std::string &result, Body body) {
    const std::string name = "%v" + std::to_string(layerCount++);
    std::string operands, list, arguments;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < values.size(); ++i) {
      names.push_back("%a" + std::to_string(i));
      operands += (i ? ", " : "") + values[i], list += (i ? ", " : "") + types[i];
      arguments += (i ? ", " : "") + names[i] + ": " + types[i];
    }
    text += name + " = kfuse.fused " + operands + " : (" + list + ") -> " + result + " {\n^bb0(" + arguments + "):\n" +
            body(names) + "kfuse.yield %r : " + result + "\n}\n";
    return name;
  }

  TemplateCase finish(const std::string &name, const std::vector<std::string> &values,
                      const std::vector<std::string> &types) const {
    std::string list, returned;
    for (std::size_t i = 0; i < values.size(); ++i)
      returned += (i ? ", " : "") + values[i], list += (i ? ", " : "") + types[i];
    return {name, "func.func @f(" + signature + ") -> (" + list + ") {\n" + text + "return " + returned + " : " + list +
                      "\n}\n"};
  }

  const int batches, m;
  const std::string type;

private:
  int parameters = 0, layerCount = 0;
  std::string signature, text;
};

std::string binary(const std::string &name, const std::string &op, const std::string &a, const std::string &b,
                   const std::string &typeA, const std::string &typeB, const std::string &result) {
  return name + " = kfuse." + op + " " + a + ", " + b + " : (" + typeA + ", " + typeB + ") -> " + result + "\n";
}

} // namespace

TemplateCase layers(int count, int batches, int m, int n, int last, bool transposeB, const std::string &type) {
  ChainText chain(batches, m, type);
  std::string value = chain.parameter(chain.shape(m, n, true)), valueType = chain.shape(m, n, true);
  for (int i = 0; i <= count; ++i) {
    const int columns = i < count ? n : last;
    const std::string w = transposeB ? chain.shape(columns, n) : chain.shape(n, columns), b = chain.shape(1, columns),
                      r = chain.rows(columns);
    const std::string weights = chain.parameter(w), bias = chain.parameter(b);
    value = chain.layer({value, weights, bias}, {valueType, w, b}, r, [&](const std::vector<std::string> &a) {
      return binary("%0", "matmul", a[0], a[1] + flagsOf(false, transposeB), valueType, w, r) +
             binary(i < count ? "%1" : "%r", "add", "%0", a[2], r, b, r) +
             (i < count ? "%r = kfuse.relu %1 : (" + r + ") -> " + r + "\n" : "");
    });
    valueType = r;
  }
  return chain.finish("layers_" + std::to_string(count) + "_" + std::to_string(batches) + "x" + std::to_string(m) +
                          "x" + std::to_string(n) + "_" + type,
                      {value}, {valueType});
}

TemplateCase normedLayers(int count, int m, int n, bool transposeB, const std::string &type) {
  ChainText chain(0, m, type);
  const std::string x = chain.shape(m, n), w = chain.shape(n, n), v = tensor(std::to_string(n), type);
  std::string value = chain.parameter(x);
  for (int i = 0; i < count; ++i) {
    std::vector<std::string> values{value};
    for (const std::string &each : {w, v, v, v})
      values.push_back(chain.parameter(each));
    value = chain.layer(values, {x, w, v, v, v}, x, [&](const std::vector<std::string> &a) {
      return binary("%0", "matmul", a[0], a[1] + flagsOf(false, transposeB), x, w, x) +
             binary("%1", "add", "%0", a[2], x, v, x) + "%2 = \"kfuse.layer_norm\"(%1, " + a[3] + ", " + a[4] +
             ") <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (" + x + ", " + v + ", " + v +
             ") -> " + x + "\n%r = kfuse.relu %2 : (" + x + ") -> " + x + "\n";
    });
  }
  return chain.finish("normed_layers_" + std::to_string(count) + "_" + std::to_string(m) + "x" + std::to_string(n) +
                          (transposeB ? "_tb_" : "_") + type,
                      {value}, {x});
}

TemplateCase scaledLayers(int count, int m, int n, const std::string &type) {
  ChainText chain(0, m, type);
  const std::string x = chain.shape(m, n), w = chain.shape(n, n), s = chain.shape(m, 1);
  std::string value = chain.parameter(x);
  for (int i = 0; i < count; ++i)
    value = chain.layer({value, chain.parameter(w), chain.parameter(x), chain.parameter(s)}, {x, w, x, s}, x,
                        [&](const std::vector<std::string> &a) {
                          return binary("%0", "matmul", a[0], a[1] + flagsOf(false, true), x, w, x) +
                                 binary("%1", "add", "%0", a[2], x, x, x) +
                                 "%2 = kfuse.rms_norm %1 {epsilon = 1.0e-5 : f32} : (" + x + ") -> " + x + "\n" +
                                 binary("%r", "mul", "%2", a[3], x, s, x);
                        });
  return chain.finish("scaled_layers_" + std::to_string(count) + "_" + std::to_string(m) + "x" + std::to_string(n) +
                          "_tb_" + type,
                      {value}, {x});
}

TemplateCase randomChain(unsigned seed) {
  std::mt19937 random(seed);
  auto pick = [&](std::initializer_list<int> of) { return of.begin()[random() % of.size()]; };
  const bool isHalf = random() % 3 == 0;
  ChainText chain(pick({0, 0, 2, 3}), pick({1, 7, 32, 64, 100, 129, 256}), isHalf ? "f16" : "bf16");
  int columns = pick({64, 72, 128, 200, 256});
  std::string value = chain.parameter(chain.rows(columns)), valueType = chain.rows(columns);
  std::vector<std::string> returned, returnedTypes;
  const int count = 2 + static_cast<int>(random() % (isHalf ? 2 : 6));
  for (int i = 0; i < count; ++i) {
    const bool transposeB = random() % 2, hasBias = random() % 2, isLast = i + 1 == count;
    // No row is as short as the narrowest tile: that of one is in several blocks.
    const int next = i == 0 ? pick({72, 136, 256, 320}) : random() % 2 ? columns : pick({64, 72, 136, 256, 320});
    const int act = pick({0, 1, 2, 3}), norm = pick({0, 0, 1, 2});
    const int width = isLast && transposeB && random() % 2 ? 2 : next;
    const std::string w = transposeB ? chain.shape(width, columns) : chain.shape(columns, width),
                      b = chain.shape(1, width), r = chain.rows(width);
    const bool hasResidual = width == columns && random() % 2;
    std::vector<std::string> values{value, chain.parameter(w)}, types{valueType, w};
    if (hasBias)
      values.push_back(chain.parameter(b)), types.push_back(b);
    value = chain.layer(values, types, r, [&](const std::vector<std::string> &a) {
      std::string body = binary("%0", "matmul", a[0], a[1] + flagsOf(false, transposeB), valueType, w, r);
      std::string last = "%0";
      if (hasBias)
        body += binary("%1", "add", last, a[2], r, b, r), last = "%1";
      const char *const functions[] = {"relu", "gelu", "silu", "neg"};
      body += "%2 = kfuse." + std::string(functions[act]) + " " + last + " : (" + r + ") -> " + r + "\n";
      last = "%2";
      if (norm > 0) {
        const char *const norms[] = {"kfuse.rms_norm %2 {epsilon = 1.0e-5 : f32}", "kfuse.softmax %2"};
        body += "%3 = " + std::string(norms[norm - 1]) + " : (" + r + ") -> " + r + "\n";
        last = "%3";
      }
      return body + (hasResidual ? binary("%r", "add", last, a[0], r, r, r)
                                 : "%r = kfuse.neg " + last + " : (" + r + ") -> " + r + "\n");
    });
    valueType = r, columns = width;
    if (isLast || random() % 4 == 0)
      returned.push_back(value), returnedTypes.push_back(r);
  }
  return chain.finish("random_chain_" + std::to_string(seed), returned, returnedTypes);
}

} // namespace kfuse::test
