// Random models as text, for property tests of passes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace kfuse::test {

/// A function @main of about `size` ops over small f32 tensors, each dimension `scale` times as long: elementwise ops
/// with and without broadcasting, rows, products, layout and constants, whose values are used any number of times.
class RandomGraph {
public:
  explicit RandomGraph(unsigned seed, int size = 24, int scale = 1) : random(seed), scale(scale) {
    addArgument({8 * scale}, "parameter");
    addArgument({8 * scale, 8 * scale}, "parameter");
    addArgument({1, 6 * scale, 8 * scale}, "parameter");
    constant("1.5");
    addArgument({6 * scale, 8 * scale}, "input");
    addArgument({4 * scale, 6 * scale, 8 * scale}, "input");
    addArgument({4 * scale, 6 * scale, 8 * scale}, "input");
    for (int i = 0; i < size; ++i)
      addOp();
  }

  /// The model returns what nothing else uses, so that no op is dead.
  std::string text() {
    std::string returned, types;
    for (const Value &value : values)
      if (body.find(value.name + " ") != std::string::npos && body.find(value.name + ",") == std::string::npos &&
          body.find(value.name + " ") == body.rfind(value.name + " ")) {
        returned += (returned.empty() ? "" : ", ") + value.name;
        types += (types.empty() ? "" : ", ") + type(value.shape);
      }
    return "func.func @main(" + arguments + ") -> (" + types + ") {\n" + body + "return " + returned + " : " + types +
           "\n}\n";
  }

private:
  using Dims = std::vector<int>;
  struct Value {
    std::string name;
    Dims shape;
  };

  static std::string type(const Dims &shape) {
    std::string text = "tensor<";
    for (int size : shape)
      text += std::to_string(size) + "x";
    return text + "f32>";
  }

  void addArgument(const Dims &shape, const std::string &role) {
    std::string name = "%arg" + std::to_string(values.size());
    arguments += (arguments.empty() ? "" : ", ") + name + ": " + type(shape) + " {kfuse.role = \"" + role +
                 "\", kfuse.name = \"a" + std::to_string(values.size()) + "\"}";
    values.push_back({name, shape});
  }

  void constant(const std::string &number) {
    std::string name = "%" + std::to_string(next++);
    body += name + " = kfuse.constant dense<" + number + "> : tensor<f32>\n";
    values.push_back({name, {}});
  }

  /// Later values are likelier, so that graphs grow deep.
  const Value &pick() {
    size_t count = values.size();
    return values[std::max({random() % count, random() % count, random() % count})];
  }

  void emit(const std::string &op, const std::vector<Value> &operands, const Dims &shape,
            const std::string &attributes = "") {
    std::string name = "%" + std::to_string(next++), names, types;
    for (const Value &operand : operands) {
      names += (names.empty() ? "" : ", ") + operand.name;
      types += (types.empty() ? "" : ", ") + type(operand.shape);
    }
    body += name + " = kfuse." + op + " " + names + " " + attributes + " : (" + types + ") -> " + type(shape) + "\n";
    values.push_back({name, shape});
  }

  static bool broadcast(const Dims &a, const Dims &b, Dims &out) {
    const Dims &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
    out = longer;
    for (size_t i = 0; i < shorter.size(); ++i) {
      int &size = out[longer.size() - shorter.size() + i];
      if (size != shorter[i] && size != 1 && shorter[i] != 1)
        return false;
      size = std::max(size, shorter[i]);
    }
    return true;
  }

  static std::string list(const std::vector<int> &numbers) {
    std::string text = "array<i64";
    for (size_t i = 0; i < numbers.size(); ++i)
      text += (i ? ", " : ": ") + std::to_string(numbers[i]);
    return text + ">";
  }

  void addOp() {
    Value x = pick();
    Dims shape = x.shape;
    switch (random() % 12) {
    case 0:
    case 1:
    case 2: {
      static const char *const binary[] = {"add", "sub", "mul", "max"};
      Value y = pick();
      Dims joined;
      if (broadcast(x.shape, y.shape, joined) && count(joined) <= largest(4096))
        emit(binary[random() % 4], {x, y}, joined);
      return;
    }
    case 3:
    case 4: {
      static const char *const unary[] = {"relu", "tanh", "sigmoid", "neg", "gelu", "silu"};
      return emit(unary[random() % 6], {x}, shape);
    }
    case 5: {
      static const char *const rows[] = {"softmax", "rms_norm", "layer_norm"};
      if (shape.empty())
        return;
      size_t which = random() % 3;
      return emit(rows[which], {x}, shape,
                  which == 0   ? ""
                  : which == 1 ? "{epsilon = 1.0e-5 : f32}"
                               : "{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 0, 0>}");
    }
    case 6: {
      if (shape.size() < 2)
        return;
      int axis = static_cast<int>(random() % shape.size());
      Dims reduced = shape;
      reduced.erase(reduced.begin() + axis);
      emit("reduce", {x}, reduced,
           std::string("{function = \"") + (random() % 2 ? "sum" : "mean") + "\", axes = " + list({axis}) + "}");
      Dims kept = shape;
      kept[axis] = 1;
      return emit("reshape", {values.back()}, kept);
    }
    case 7: {
      Value y = pick();
      if (x.shape.size() < 2 || y.shape.size() < 2)
        return;
      bool transposed = random() % 2;
      int k = y.shape[y.shape.size() - (transposed ? 1 : 2)], n = y.shape[y.shape.size() - (transposed ? 2 : 1)];
      Dims batch;
      if (shape.back() != k ||
          !broadcast(Dims(shape.begin(), shape.end() - 2), Dims(y.shape.begin(), y.shape.end() - 2), batch))
        return;
      batch.insert(batch.end(), {shape[shape.size() - 2], n});
      return emit("matmul", {x, y}, batch, transposed ? "{transpose_b}" : "");
    }
    case 8: {
      if (shape.size() < 2)
        return;
      std::vector<int> permutation(shape.size());
      for (size_t i = 0; i < shape.size(); ++i)
        permutation[i] = static_cast<int>(i);
      std::shuffle(permutation.begin(), permutation.end(), random);
      Dims result;
      for (int dim : permutation)
        result.push_back(shape[dim]);
      return emit("transpose", {x}, result, "{permutation = " + list(permutation) + "}");
    }
    case 9: {
      if (shape.size() < 2)
        return;
      // Merge two neighbours, or cut one in two.
      size_t i = random() % (shape.size() - 1);
      Dims result = shape;
      if (random() % 2) {
        result[i] *= result[i + 1];
        result.erase(result.begin() + static_cast<long>(i) + 1);
      } else if (result[i] % 2 == 0) {
        result[i] /= 2;
        result.insert(result.begin() + static_cast<long>(i) + 1, 2);
      }
      return emit("reshape", {x}, result);
    }
    case 10: {
      if (shape.empty())
        return;
      std::vector<int> offsets(shape.size(), 0), strides(shape.size(), 1);
      size_t i = random() % shape.size();
      if (shape[i] < 2)
        return;
      offsets[i] = static_cast<int>(random() % 2);
      shape[i] = (shape[i] - offsets[i] + 1) / 2;
      strides[i] = random() % 2 ? 2 : 1;
      if (strides[i] == 2 && offsets[i] + 2 * (shape[i] - 1) >= x.shape[i])
        return;
      return emit("slice", {x}, shape, "{offsets = " + list(offsets) + ", strides = " + list(strides) + "}");
    }
    default: {
      if (shape.empty() || count(shape) > largest(1024))
        return;
      int axis = static_cast<int>(random() % shape.size());
      shape[axis] *= 2;
      return emit("concat", {x, x}, shape, "{axis = " + std::to_string(axis) + " : i64}");
    }
    }
  }

  static std::int64_t count(const Dims &shape) {
    std::int64_t product = 1;
    for (int size : shape)
      product *= size;
    return product;
  }

  std::int64_t largest(std::int64_t elements) const { return elements * scale * scale * scale; }

  std::mt19937 random;
  int scale;
  std::vector<Value> values;
  std::string arguments, body;
  int next = 0;
};

} // namespace kfuse::test
