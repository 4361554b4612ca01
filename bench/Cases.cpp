#include "bench/Cases.h"

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
